"""What people ask of any student: its curve, its best ridge, how many samples it needs."""
