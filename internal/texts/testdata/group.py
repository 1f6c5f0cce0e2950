import asyncio

async def fetch(url):
    raise ConnectionError("no route to " + url)

async def main():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fetch("example.org"))
        tasks.create_task(fetch("example.net"))

asyncio.run(main())
