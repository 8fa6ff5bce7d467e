/* The benchmarks' stand-in agent: speaks claude's stream-json, and costs as little as a process can.
 *
 * It reads one message, answers as BENCH_MODE says, and exits when its stdin ends:
 *   turn    one text, then a result whose summary is the time and BENCH_TEXT: no two summaries are the same
 *   stream  BENCH_COUNT pairs of tool call and tool result with BENCH_TEXT in each, one write(2) a line, BENCH_GAP_US
 *           between two pairs, then a result
 *   line    one text, all of BENCH_TEXT in a single line, then a result
 *   stamps  BENCH_COUNT texts that begin with the time they were written (CLOCK_MONOTONIC, ns) and go on with
 *           BENCH_TEXT, BENCH_GAP_US apart, then a result
 *   play    the lines of BENCH_TEXT, which are whole events, BENCH_GAP_US before each message or call, then a result
 *   hang    nothing at all, until it is killed
 * BENCH_TEXT names a file with text that is already escaped for JSON (but for `play`). BENCH_BORN names a file that gets the time of the
 * agent's first instruction, BENCH_STARTED one that gets the time of the message; BENCH_TOUCH one that a turn changes.
 * BENCH_PAUSE_US is the time between the message and the answer. BENCH_SUMMARY is the result's summary; "ok" by default.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TOOL_CALL \
    "{\"type\":\"assistant\",\"message\":{\"id\":\"msg_%010ld\",\"type\":\"message\",\"role\":\"assistant\"," \
    "\"model\":\"claude-sonnet-5-5\",\"content\":[{\"type\":\"tool_use\",\"id\":\"toolu_%010ld\",\"name\":\"Write\"," \
    "\"input\":{\"file_path\":\"src/module.py\",\"content\":\""
#define TOOL_CALL_END \
    "\"}}],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":12,\"output_tokens\":1," \
    "\"cache_creation_input_tokens\":100,\"cache_read_input_tokens\":2000}},\"parent_tool_use_id\":null," \
    "\"session_id\":\"bench\",\"uuid\":\"bench\"}\n"
#define TOOL_RESULT \
    "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"tool_use_id\":\"toolu_%010ld\"," \
    "\"type\":\"tool_result\",\"content\":\""
#define TOOL_RESULT_END "\"}]},\"parent_tool_use_id\":null,\"session_id\":\"bench\",\"uuid\":\"bench\"}\n"
#define TEXT \
    "{\"type\":\"assistant\",\"message\":{\"id\":\"msg_%010ld\",\"type\":\"message\",\"role\":\"assistant\"," \
    "\"model\":\"claude-sonnet-5-5\",\"content\":[{\"type\":\"text\",\"text\":\""
#define TEXT_END \
    "\"}],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":12,\"output_tokens\":1}}," \
    "\"parent_tool_use_id\":null,\"session_id\":\"bench\",\"uuid\":\"bench\"}\n"
#define INIT \
    "{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\".\",\"session_id\":\"bench\",\"tools\":[\"Bash\",\"Write\"," \
    "\"StructuredOutput\"],\"mcp_servers\":[],\"model\":\"claude-sonnet-5-5\",\"permissionMode\":\"default\"," \
    "\"apiKeySource\":\"none\",\"claude_code_version\":\"2.1.325\",\"uuid\":\"bench\"}\n"
#define RESULT \
    "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"duration_ms\":1,\"duration_api_ms\":1," \
    "\"num_turns\":1,\"result\":\"ok\",\"session_id\":\"bench\",\"total_cost_usd\":0.001,\"usage\":{}," \
    "\"modelUsage\":{\"claude-sonnet-5-5\":{\"inputTokens\":12,\"outputTokens\":34,\"cacheReadInputTokens\":0," \
    "\"cacheCreationInputTokens\":0,\"costUSD\":0.001,\"contextWindow\":200000}},\"permission_denials\":[]," \
    "\"terminal_reason\":\"completed\",\"uuid\":\"bench\",\"structured_output\":{\"summary\":\""
#define RESULT_END "\"}}\n"

static long number(const char *name, long otherwise) {
    const char *value = getenv(name);
    return value ? atol(value) : otherwise;
}

static long long now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void say(const char *data, size_t length) {
    while (length) {
        ssize_t written = write(1, data, length);
        if (written <= 0) exit(1);
        data += written;
        length -= written;
    }
}

static char *text = "";
static size_t text_length = 0;

static void load_text(void) {
    const char *path = getenv("BENCH_TEXT");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!path) return;
    if (!file || fseek(file, 0, SEEK_END)) exit(2);
    text_length = ftell(file);
    rewind(file);
    text = malloc(text_length + 1);
    if (fread(text, 1, text_length, file) != text_length) exit(2);
    fclose(file);
}

/* Room for any head, the text and any end. */
static char *new_line(void) { return malloc(text_length + 2048); }

/* Finish a line that has `length` bytes so far with the text and an end, and write it at once. */
static void say_with_text(char *line, int length, const char *end) {
    memcpy(line + length, text, text_length);
    strcpy(line + length + text_length, end);
    say(line, length + text_length + strlen(end));
}

static void say_result(void) {
    const char *summary = getenv("BENCH_SUMMARY");
    char line[2048];
    say(line, snprintf(line, sizeof line, "%s%s%s", RESULT, summary ? summary : "ok", RESULT_END));
}

static void stream(long count, long gap) {
    char *line = new_line();
    for (long id = 0; id < count; id++) {
        if (gap) usleep(gap);
        say_with_text(line, sprintf(line, TOOL_CALL, id, id), TOOL_CALL_END);
        say_with_text(line, sprintf(line, TOOL_RESULT, id), TOOL_RESULT_END);
    }
    say_result();
}

static void stamps(long count, long gap) {
    char *line = new_line();
    for (long id = 0; id < count; id++) {
        usleep(gap);
        int length = sprintf(line, TEXT, id);
        length += sprintf(line + length, "stamp %lld. ", now());
        say_with_text(line, length, TEXT_END);
    }
    say_result();
}

static void play(long gap) {
    static const char answer[] = "{\"type\":\"assistant\"";
    for (char *line = text, *next; line < text + text_length; line = next) {
        char *end = memchr(line, '\n', text + text_length - line);
        next = end ? end + 1 : text + text_length;
        if (gap && !strncmp(line, answer, sizeof answer - 1)) usleep(gap);
        say(line, next - line);
    }
    say_result();
}

static void long_line(void) {
    char *line = new_line();
    say_with_text(line, sprintf(line, TEXT, 0L), TEXT_END);
    say_result();
}

static void turn(void) {
    const char *touched = getenv("BENCH_TOUCH");
    if (touched) {
        char stamp[64];
        int file = open(touched, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (file < 0 || write(file, stamp, snprintf(stamp, sizeof stamp, "%lld\n", now())) < 0) exit(1);
        close(file);
    }
    char *line = new_line();
    say(line, sprintf(line, TEXT "I do the work." TEXT_END, 0L));
    say_with_text(line, sprintf(line, "%sat %lld: ", RESULT, now()), RESULT_END);
}

static void note(const char *variable, long long at) {
    const char *path = getenv(variable);
    if (!path) return;
    FILE *file = fopen(path, "w");
    if (!file) exit(2);
    fprintf(file, "%lld\n", at);
    fclose(file);
}

/* Answer the handshake that claude-agent-sdk begins with. */
static void answer_control(const char *line) {
    const char *id = strstr(line, "\"request_id\"");
    const char *from = id ? strchr(id + 12, '"') : NULL;
    const char *to = from ? strchr(from + 1, '"') : NULL;
    if (!to) exit(1);
    char reply[512];
    int length = snprintf(reply, sizeof reply,
        "{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"%.*s\",\"response\":{}}}\n",
        (int)(to - from - 1), from + 1);
    say(reply, length);
}

int main(int argc, char **argv) {
    long long born = now();
    if (argc == 2 && (!strcmp(argv[1], "-v") || !strcmp(argv[1], "--version"))) return puts("2.1.325 (Claude Code)") < 0;
    const char *mode = getenv("BENCH_MODE");
    char *line = NULL;
    size_t room = 0;
    if (!mode) return 2;
    note("BENCH_BORN", born);
    load_text();
    do {
        if (getline(&line, &room, stdin) < 0) return 1;
        if (strstr(line, "\"control_request\"")) answer_control(line);
    } while (!strstr(line, "\"user\""));
    note("BENCH_STARTED", now());
    say(INIT, strlen(INIT));
    usleep(number("BENCH_PAUSE_US", 0));
    long count = number("BENCH_COUNT", 1), gap = number("BENCH_GAP_US", 0);
    if (!strcmp(mode, "hang")) while (1) pause();
    else if (!strcmp(mode, "stream")) stream(count, gap);
    else if (!strcmp(mode, "stamps")) stamps(count, gap);
    else if (!strcmp(mode, "play")) play(gap);
    else if (!strcmp(mode, "line")) long_line();
    else if (!strcmp(mode, "turn")) turn();
    else return 2;
    while (getline(&line, &room, stdin) >= 0) {}
    return 0;
}
