"""KeyValueMemNN on MetaQA, compared with a logistic regression."""
