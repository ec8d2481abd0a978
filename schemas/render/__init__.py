"""What a declaration turns into: Arrow schemas, Spark DDL, check suites, the data dictionary, test rows."""
