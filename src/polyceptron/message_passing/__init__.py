"""One message-passing iteration in two ways: Bayes-optimal (`amp`) and for ERM (`amp_erm`)."""
