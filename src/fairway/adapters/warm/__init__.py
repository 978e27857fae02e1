"""The warm adapter: children in any language that stay up and run job after job, over JSON lines."""
