"""How each agent is started, and how its output becomes events; nothing here touches the machine."""
