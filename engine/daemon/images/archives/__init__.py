"""What archives of images are made of: their members, their oldest form, and those that lie on the web."""
