"""How fast rolloutds is, each figure beside a yardstick measured in the same run."""
