"""OpenAI's images, videos and models over the same jobs as every other interface. It computes nothing."""

from restrike.server.openai import images, models, videos

ROUTERS = (models.router, images.router, videos.router)
