"""The parts of `deploy/vm/build` and `deploy/vm/launch`."""


class ImageError(Exception):
    """Why there is no image, or no machine: a sentence that says what to do."""
