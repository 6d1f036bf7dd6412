"""The tabs: the controls of each view. They need Gradio, and never import Keras.

`show`, an argument of each tab, computes a view from its name and its inputs.
"""
