"""Settings of agents as people have them, and what is said in them."""

import json
import tomllib
from pathlib import Path
from typing import Any

COMMAND = "/opt/box/bin/pillarbox hook --agent {} --database sqlite:////srv/p.db --spool-dir '/srv/a b'"

CLAUDE_SETTINGS = """{
    "$schema": "https://json.schemastore.org/claude-code-settings.json",
    "permissions": {
        "allow": ["Bash(npm run lint)", "Read(~/.zshrc)"], "deny": []
    },
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "Bash",
                "hooks": [{ "type": "command", "command": "~/bin/überprüfe.sh", "timeout": 10 }]
            }
        ],
        "Stop": [ {"hooks": [{"type": "command", "command": "say 'done'"}]} ],
        "SessionEnd": []
    },
    "env": {"GREETING": "gr\\u00fc\\u00df 👋"},   "statusLine": null
}
"""
GEMINI_SETTINGS = """{
\t"general": {"vimMode": true},
\t"hooksConfig": {"enabled": true},
\t"mcpServers": {}
}"""
CODEX_SETTINGS = """# my settings
model = "gpt-5-codex"   # the good one
notify = ["notify-send", "Codex"]

[projects."/home/ada/x"]
trust_level = "trusted"

[[hooks.Stop]]
[[hooks.Stop.hooks]]
type = "command"
command = 'say "done"'
timeout = 30

[tui]
notifications = true # ring
"""


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def commands(path: Path) -> dict[str, list[str]]:
    text = path.read_text()
    found: dict[str, Any] = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return {
        event: [handler["command"] for group in groups for handler in group["hooks"]]
        for event, groups in found["hooks"].items()
    }
