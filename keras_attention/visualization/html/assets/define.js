if (!customElements.get("attention-view"))
  customElements.define("attention-view", AttentionView);
