"""Values of the product that know no database: policies, budgets' periods, retention, stored rounds."""
