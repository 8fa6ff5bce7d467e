/* The benchmarks' stand-in agent: speaks claude's stream-json, and costs as little as a process can.
 *
 * It hears one message, answers in the way BENCH_MODE names, and leaves when its stdin ends:
 *   turn    one text, then a result whose summary has BENCH_SIZE bytes
 *   stream  BENCH_COUNT pairs of tool call and tool result, each line BENCH_SIZE bytes and one write(2), BENCH_GAP_US
 *           between two pairs, then a result
 *   line    one text in a single line of BENCH_SIZE bytes, then a result
 *   stamps  BENCH_COUNT texts that say when they were written (CLOCK_MONOTONIC, ns), BENCH_GAP_US apart, then a result
 *   hang    nothing at all, until it is killed
 * BENCH_STARTED names a file that is told when the message came; BENCH_TOUCH one that a turn changes, as work does.
 * BENCH_PAUSE_US is how long it thinks before it answers.
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

/* Text of `length` bytes on the wire, with an escape in every line of it, as code has. */
static char *filler(size_t length) {
    static const char code[] = "    value = compute(other) + 1  # and so on it goes\\n";
    char *text = malloc(length + 1);
    for (size_t i = 0; i < length; i++) text[i] = code[i % (sizeof code - 1)];
    if (length && text[length - 1] == '\\') text[length - 1] = '.';
    text[length] = 0;
    return text;
}

static void say_result(size_t summary) {
    char *text = filler(summary);
    size_t length = strlen(RESULT) + summary + strlen(RESULT_END);
    char *line = malloc(length + 1);
    snprintf(line, length + 1, "%s%s%s", RESULT, text, RESULT_END);
    say(line, length);
}

/* One line of `size` bytes from a head with ids in it, filler and an end. */
static void say_padded(char *line, const char *head, const char *end, const char *text, long id, long size) {
    int length = snprintf(line, 512, head, id, id);
    long padding = size - length - (long)strlen(end);
    if (padding < 0) padding = 0;
    memcpy(line + length, text, padding);
    if (padding && line[length + padding - 1] == '\\') line[length + padding - 1] = '.';
    strcpy(line + length + padding, end);
    say(line, length + padding + strlen(end));
}

static void stream(long count, long size, long gap) {
    char *text = filler(size), *line = malloc(size + 2048);
    for (long id = 0; id < count; id++) {
        if (gap) usleep(gap);
        say_padded(line, TOOL_CALL, TOOL_CALL_END, text, id, size);
        say_padded(line, TOOL_RESULT, TOOL_RESULT_END, text, id, size);
    }
}

static void stamps(long count, long gap) {
    for (long id = 0; id < count; id++) {
        char line[1024];
        usleep(gap);
        int length = snprintf(line, sizeof line, TEXT, id);
        length += snprintf(line + length, sizeof line - length, "stamp %lld.%s", now(), TEXT_END);
        say(line, length);
    }
}

static void turn(long size) {
    const char *touched = getenv("BENCH_TOUCH");
    if (touched) {
        char text[64];
        int file = open(touched, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (file < 0 || write(file, text, snprintf(text, sizeof text, "%lld\n", now())) < 0) exit(1);
        close(file);
    }
    char line[1024];
    int length = snprintf(line, sizeof line, TEXT "I do the work." TEXT_END, 0L);
    say(line, length);
    say_result(size);
}

static void note_start(void) {
    const char *path = getenv("BENCH_STARTED");
    if (!path) return;
    FILE *file = fopen(path, "w");
    fprintf(file, "%lld\n", now());
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
    if (argc == 2 && (!strcmp(argv[1], "-v") || !strcmp(argv[1], "--version"))) return puts("2.1.325 (Claude Code)") < 0;
    const char *mode = getenv("BENCH_MODE");
    char *line = NULL;
    size_t room = 0;
    if (!mode) return 2;
    do {
        if (getline(&line, &room, stdin) < 0) return 1;
        if (strstr(line, "\"control_request\"")) answer_control(line);
    } while (!strstr(line, "\"user\""));
    note_start();
    say(INIT, strlen(INIT));
    usleep(number("BENCH_PAUSE_US", 0));
    if (!strcmp(mode, "hang")) while (1) pause();
    if (!strcmp(mode, "stream")) stream(number("BENCH_COUNT", 1), number("BENCH_SIZE", 2000), number("BENCH_GAP_US", 0));
    if (!strcmp(mode, "stamps")) stamps(number("BENCH_COUNT", 1), number("BENCH_GAP_US", 1000));
    if (!strcmp(mode, "line")) {
        long size = number("BENCH_SIZE", 2000);
        char *whole = malloc(size + 2048);
        say_padded(whole, TEXT, TEXT_END, filler(size), 0, size);
    }
    if (!strcmp(mode, "turn")) turn(number("BENCH_SIZE", 20));
    else say_result(20);
    while (getline(&line, &room, stdin) >= 0) {}
    return 0;
}
