"""What waits for a person: approvals, the questions behind them, typed forms."""
