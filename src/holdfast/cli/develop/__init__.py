"""The commands for those who write workflows: checked, drawn, evaluated, replayed."""
