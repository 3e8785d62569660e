"""The campaign: real processes under faults, and clients that write down what they asked and were told."""
