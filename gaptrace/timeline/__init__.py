"""Windows of a recording for pictures and the dashboard: columns, scopes, level of detail."""
