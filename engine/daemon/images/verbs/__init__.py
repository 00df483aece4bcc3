"""The API's operations on images, one file for each: pull, push, load, save, import, list, tag, remove and others."""
