"""DescribeAcls, CreateAcls and DeleteAcls on a server without an authorizer: SECURITY_DISABLED, as in Kafka.

CreateAcls and DeleteAcls report the error for each ACL and for each filter. Kafka refuses an unknown resource type,
pattern type, operation or permission type while it decodes a request; the connection is closed. A code that no type
has is not refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.model.errors import InvalidRequestError, SecurityDisabledError
from tailrace.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from tailrace.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node

AclRequest = DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest
AclResponse = DescribeAclsResponse | CreateAclsResponse | DeleteAclsResponse

_UNKNOWN: Final = 0
"""Of a resource type, pattern type, operation or permission type."""
_CODE: Final = SecurityDisabledError.code
_MESSAGE: Final = "No Authorizer is configured."


def handle(node: Node, context: RequestContext, request: AclRequest, reply: Callable[[AclResponse], None]) -> None:
    if _has_unknown(request):
        context.fail(InvalidRequestError(f"{type(request).__name__} with an unknown type or operation"))
    elif isinstance(request, DescribeAclsRequest):
        reply(DescribeAclsResponse(error_code=_CODE, error_message="No Authorizer is configured on the broker"))
    elif isinstance(request, CreateAclsRequest):
        created = [AclCreationResult(error_code=_CODE, error_message=_MESSAGE) for _ in request.creations]
        reply(CreateAclsResponse(results=created))
    else:
        deleted = [DeleteAclsFilterResult(error_code=_CODE, error_message=_MESSAGE) for _ in request.filters]
        reply(DeleteAclsResponse(filter_results=deleted))


def _has_unknown(request: AclRequest) -> bool:
    if isinstance(request, CreateAclsRequest):
        return any(
            _UNKNOWN in (acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type)
            for acl in request.creations
        )
    filters = request.filters if isinstance(request, DeleteAclsRequest) else (request,)
    return any(
        _UNKNOWN in (each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
        for each in filters
    )
