"""What people look at. Views read the one read model and the journal; they decide nothing and change nothing."""
