"""The wire formats the model server speaks, one module each; what they have in common is `holdfast.testing.wire`."""
