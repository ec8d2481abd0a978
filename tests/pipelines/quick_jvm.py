"""Options for Java programs of a minute, several at once on two cores: the better compiler does not pay."""

# Without it Java reserves 48 MB for compiled code, and a run that fills them dies.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
