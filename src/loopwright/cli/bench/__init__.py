"""What an agent at work is made of: model, tools, gate, prompt, what the user types."""
