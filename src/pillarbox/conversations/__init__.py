"""The way back: what agents say, to the chats of their sessions."""
