"""Where leaves are cut and merged by what was asked, and what that costs and saves."""
