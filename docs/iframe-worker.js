// Browsers start no worker on a page that was opened from disk. There, this stands for
// one: a hidden frame in which the worker's script runs, so that the search works.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(script) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      this.inner = this.frame.contentWindow
      addEventListener("message", event => {
        if (event.source !== this.inner) return
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      })
      const send = this.inner.postMessage.bind(this.inner) // before the frame has its own
      this.send = data => send(data, "*")
      const page = this.frame.contentDocument
      page.open()
      page.write(`<!doctype html><html><body><script>
        postMessage = data => parent.postMessage(data, "*")
        importScripts = (...scripts) => scripts.reduce((before, script) =>
          before.then(() => new Promise(loaded => {
            const element = document.createElement("script")
            element.src = script
            element.onload = loaded
            document.body.appendChild(element)
          })), Promise.resolve())
      </script><script src="${script}"></script></body></html>`)
      page.close()
      this.loaded = new Promise(loaded => {
        page.querySelector("script[src]").addEventListener("load", loaded)
      })
    }
    postMessage(data) {
      this.loaded.then(() => this.send(data))
    }
    terminate() {
      this.frame.remove()
    }
  }
