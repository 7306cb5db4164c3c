"""What turns commands into effects: the live driver, and the simulator. They share the machine, nothing else."""
