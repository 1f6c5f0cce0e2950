def send(:
    pass
