"""What a product has to say: to many tenants' recipients, over many channels, each message accounted for."""
