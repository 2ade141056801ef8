"""The stages of `ser build`: each one async function of one record, which knows nothing of files or concurrency."""
