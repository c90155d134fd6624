"""Those who send: each tries the same thing until it is answered, and only then writes down that it was."""
