"""The browser libraries that go with the pages, beside their packages."""
