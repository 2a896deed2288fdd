"""What tests share, by subject. Helpers that one test folder alone needs live beside its tests."""
