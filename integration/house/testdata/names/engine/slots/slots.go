package slots
