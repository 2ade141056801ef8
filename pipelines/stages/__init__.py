"""The stages of `ser build`: each one async function of one record that knows nothing of files, retries or concurrency."""
