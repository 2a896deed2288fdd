"""Kafka's wire protocol: messages as plain values, bytes to messages and back, the table of APIs. No sockets.

messages/, records/, headers    what there is to say, declared
schema, message                 the words of the declarations, and the classes they make
layout, decoder, encoder        what one version looks like, and the compilers of its codec
codec                           decode, encode, encode_parts
apis, frame, record_frame       which APIs there are; requests, responses and metadata records in their frames
"""
