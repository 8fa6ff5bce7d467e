"""The Skill tool: it loads instructions by name, which follow as a message of their own."""

from collections.abc import Mapping

from ralph.claude_cli.desk import Desk, ToolResult, rejected
from ralph.claude_cli.instructions import find_skill
from ralph.claude_cli.schemas import schema, text_argument
from ralph.core.text import did_you_mean


class SkillTool:
    name = "Skill"
    description = (
        "Fetch a skill: instructions that the user or the project has written for a kind of task. Call it with a name "
        "from the list of available skills, before doing a task that one of them is about; then follow what it says."
    )
    input_schema = schema(
        {
            "skill": {"type": "string", "description": "The skill's name, from the list"},
            "args": {"type": "string", "description": "Arguments for the skill"},
        },
        "skill",
    )

    def run(self, arguments: Mapping[str, object], desk: Desk) -> ToolResult:
        """Launch the skill."""
        name = text_argument(arguments, "skill").strip().removeprefix("/")
        if not name:
            return rejected("Invalid skill format: ")
        skill = find_skill(desk.skills, name)
        if skill is None:
            near = did_you_mean(name, desk.skills).strip(" ()")
            return rejected(f"Unknown skill: {name}" + (f". D{near[1:]}" if near else ""))
        if skill.for_users_only:
            return rejected(
                f"Skill {name} cannot be used with Skill tool due to disable-model-invocation. Ask the user to run "
                f"/{name} themselves — it cannot be invoked via the Skill tool. Do not replicate this skill's workflow "
                "by other means — it is reserved for explicit user invocation."
            )
        detail: dict[str, object] = {"success": True, "commandName": name}
        if skill.allowed_tools:
            detail["allowedTools"] = list(skill.allowed_tools)
        told = skill.told(text_argument(arguments, "args"))
        before = desk.loaded_skills.get(skill.name)
        desk.loaded_skills[skill.name] = told
        if before == told:
            told = f"Skill /{name} is already loaded above; instructions unchanged."
        elif before is not None:
            told = (
                f"(Re-invocation of /{name} — the skill instructions were previously loaded; the arguments or dynamic "
                f"output below are new.)\n\n{told}"
            )
        return ToolResult(f"Launching skill: {name}", detail=detail, follow_up=told)
