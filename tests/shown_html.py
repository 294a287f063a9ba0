"""What notebooks show of a value."""


def html_of(value):
    """Return the HTML that a value shows itself as."""
    return value._repr_html_()
