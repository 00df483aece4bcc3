"""The long job: fuzzing by atheris, a hundred thousand inputs for each target (`python3 -m tests --long`)."""
