"""What windows keep from batch to batch: state as bases and patches, results by hour, how long results stay."""
