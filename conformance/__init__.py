"""What pydisc claims, measured: every operator of PyTorch's own test database against eager."""
