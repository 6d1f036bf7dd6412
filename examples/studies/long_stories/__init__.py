"""Questions about facts among long distractors: which memory for which length."""
