"""The two engines that carry out jobs, Spark and this process: rows in tasks, mapped, exchanged and collected."""
