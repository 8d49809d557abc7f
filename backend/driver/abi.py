"""The PJRT C API as data: every function with the fields of its argument struct, in the order of the function table.

Facts from xla/pjrt/c/pjrt_c_api.h (OpenXLA), API version 0.113. A field reads name:type. Each argument struct starts
with ``struct_size:size extension_start:pointer``, which the tables leave out, and is called <function>_Args.
"""

from __future__ import annotations

MAJOR_VERSION = 0
MINOR_VERSION = 113

FUNCTIONS: dict[str, str] = {
    "PJRT_Error_Destroy": "error:pointer",
    "PJRT_Error_Message": "error:pointer message:pointer message_size:size",
    "PJRT_Error_GetCode": "error:pointer code:int32",
    "PJRT_Plugin_Initialize": "",
    "PJRT_Plugin_Attributes": "attributes:pointer num_attributes:size",
    "PJRT_Event_Destroy": "event:pointer",
    "PJRT_Event_IsReady": "event:pointer is_ready:bool",
    "PJRT_Event_Error": "event:pointer",
    "PJRT_Event_Await": "event:pointer",
    "PJRT_Event_OnReady": "event:pointer callback:pointer user_arg:pointer",
    "PJRT_Client_Create": (
        "create_options:pointer num_options:size kv_get_callback:pointer kv_get_user_arg:pointer "
        "kv_put_callback:pointer kv_put_user_arg:pointer client:pointer kv_try_get_callback:pointer "
        "kv_try_get_user_arg:pointer"
    ),
    "PJRT_Client_Destroy": "client:pointer",
    "PJRT_Client_PlatformName": "client:pointer platform_name:pointer platform_name_size:size",
    "PJRT_Client_ProcessIndex": "client:pointer process_index:int32",
    "PJRT_Client_PlatformVersion": "client:pointer platform_version:pointer platform_version_size:size",
    "PJRT_Client_Devices": "client:pointer devices:pointer num_devices:size",
    "PJRT_Client_AddressableDevices": "client:pointer addressable_devices:pointer num_addressable_devices:size",
    "PJRT_Client_LookupDevice": "client:pointer id:int32 device:pointer",
    "PJRT_Client_LookupAddressableDevice": "client:pointer local_hardware_id:int32 addressable_device:pointer",
    "PJRT_Client_AddressableMemories": "client:pointer addressable_memories:pointer num_addressable_memories:size",
    "PJRT_Client_Compile": (
        "client:pointer program:pointer compile_options:pointer compile_options_size:size executable:pointer"
    ),
    "PJRT_Client_DefaultDeviceAssignment": (
        "client:pointer num_replicas:int32 num_partitions:int32 default_assignment_size:size default_assignment:pointer"
    ),
    "PJRT_Client_BufferFromHostBuffer": (
        "client:pointer data:pointer type:int32 dims:pointer num_dims:size byte_strides:pointer "
        "num_byte_strides:size host_buffer_semantics:int32 device:pointer memory:pointer device_layout:pointer "
        "done_with_host_buffer:pointer buffer:pointer"
    ),
    "PJRT_DeviceDescription_Id": "device_description:pointer id:int32",
    "PJRT_DeviceDescription_ProcessIndex": "device_description:pointer process_index:int32",
    "PJRT_DeviceDescription_Attributes": "device_description:pointer num_attributes:size attributes:pointer",
    "PJRT_DeviceDescription_Kind": "device_description:pointer device_kind:pointer device_kind_size:size",
    "PJRT_DeviceDescription_DebugString": "device_description:pointer debug_string:pointer debug_string_size:size",
    "PJRT_DeviceDescription_ToString": "device_description:pointer to_string:pointer to_string_size:size",
    "PJRT_Device_GetDescription": "device:pointer device_description:pointer",
    "PJRT_Device_IsAddressable": "device:pointer is_addressable:bool",
    "PJRT_Device_LocalHardwareId": "device:pointer local_hardware_id:int32",
    "PJRT_Device_AddressableMemories": "device:pointer memories:pointer num_memories:size",
    "PJRT_Device_DefaultMemory": "device:pointer memory:pointer",
    "PJRT_Device_MemoryStats": (
        "device:pointer bytes_in_use:int64 peak_bytes_in_use:int64 peak_bytes_in_use_is_set:bool num_allocs:int64 "
        "num_allocs_is_set:bool largest_alloc_size:int64 largest_alloc_size_is_set:bool bytes_limit:int64 "
        "bytes_limit_is_set:bool bytes_reserved:int64 bytes_reserved_is_set:bool peak_bytes_reserved:int64 "
        "peak_bytes_reserved_is_set:bool bytes_reservable_limit:int64 bytes_reservable_limit_is_set:bool "
        "largest_free_block_bytes:int64 largest_free_block_bytes_is_set:bool pool_bytes:int64 "
        "pool_bytes_is_set:bool peak_pool_bytes:int64 peak_pool_bytes_is_set:bool"
    ),
    "PJRT_Memory_Id": "memory:pointer id:int32",
    "PJRT_Memory_Kind": "memory:pointer kind:pointer kind_size:size",
    "PJRT_Memory_DebugString": "memory:pointer debug_string:pointer debug_string_size:size",
    "PJRT_Memory_ToString": "memory:pointer to_string:pointer to_string_size:size",
    "PJRT_Memory_AddressableByDevices": "memory:pointer devices:pointer num_devices:size",
    "PJRT_Executable_Destroy": "executable:pointer",
    "PJRT_Executable_Name": "executable:pointer executable_name:pointer executable_name_size:size",
    "PJRT_Executable_NumReplicas": "executable:pointer num_replicas:size",
    "PJRT_Executable_NumPartitions": "executable:pointer num_partitions:size",
    "PJRT_Executable_NumOutputs": "executable:pointer num_outputs:size",
    "PJRT_Executable_SizeOfGeneratedCodeInBytes": "executable:pointer size_in_bytes:int64",
    "PJRT_Executable_GetCostAnalysis": "executable:pointer num_properties:size properties:pointer",
    "PJRT_Executable_OutputMemoryKinds": (
        "executable:pointer num_outputs:size memory_kinds:pointer memory_kind_sizes:pointer"
    ),
    "PJRT_Executable_OptimizedProgram": "executable:pointer program:pointer",
    "PJRT_Executable_Serialize": (
        "executable:pointer serialized_bytes:pointer serialized_bytes_size:size serialized_executable:pointer "
        "serialized_executable_deleter:pointer"
    ),
    "PJRT_LoadedExecutable_Destroy": "executable:pointer",
    "PJRT_LoadedExecutable_GetExecutable": "loaded_executable:pointer executable:pointer",
    "PJRT_LoadedExecutable_AddressableDevices": (
        "executable:pointer addressable_devices:pointer num_addressable_devices:size"
    ),
    "PJRT_LoadedExecutable_Delete": "executable:pointer",
    "PJRT_LoadedExecutable_IsDeleted": "executable:pointer is_deleted:bool",
    "PJRT_LoadedExecutable_Execute": (
        "executable:pointer options:pointer argument_lists:pointer num_devices:size num_args:size "
        "output_lists:pointer device_complete_events:pointer execute_device:pointer"
    ),
    "PJRT_Executable_DeserializeAndLoad": (
        "client:pointer serialized_executable:pointer serialized_executable_size:size loaded_executable:pointer "
        "overridden_serialized_compile_options:pointer overridden_serialized_compile_options_size:size"
    ),
    "PJRT_LoadedExecutable_Fingerprint": (
        "executable:pointer executable_fingerprint:pointer executable_fingerprint_size:size"
    ),
    "PJRT_Buffer_Destroy": "buffer:pointer",
    "PJRT_Buffer_ElementType": "buffer:pointer type:int32",
    "PJRT_Buffer_Dimensions": "buffer:pointer dims:pointer num_dims:size",
    "PJRT_Buffer_UnpaddedDimensions": "buffer:pointer unpadded_dims:pointer num_dims:size",
    "PJRT_Buffer_DynamicDimensionIndices": "buffer:pointer dynamic_dim_indices:pointer num_dynamic_dims:size",
    "PJRT_Buffer_GetMemoryLayout": "buffer:pointer layout:PJRT_Buffer_MemoryLayout",
    "PJRT_Buffer_OnDeviceSizeInBytes": "buffer:pointer on_device_size_in_bytes:size",
    "PJRT_Buffer_Device": "buffer:pointer device:pointer",
    "PJRT_Buffer_Memory": "buffer:pointer memory:pointer",
    "PJRT_Buffer_Delete": "buffer:pointer",
    "PJRT_Buffer_IsDeleted": "buffer:pointer is_deleted:bool",
    "PJRT_Buffer_CopyToDevice": "buffer:pointer dst_device:pointer dst_buffer:pointer",
    "PJRT_Buffer_ToHostBuffer": "src:pointer host_layout:pointer dst:pointer dst_size:size event:pointer",
    "PJRT_Buffer_IsOnCpu": "buffer:pointer is_on_cpu:bool",
    "PJRT_Buffer_ReadyEvent": "buffer:pointer event:pointer",
    "PJRT_Buffer_UnsafePointer": "buffer:pointer buffer_pointer:size",
    "PJRT_Buffer_IncreaseExternalReferenceCount": "buffer:pointer",
    "PJRT_Buffer_DecreaseExternalReferenceCount": "buffer:pointer",
    "PJRT_Buffer_OpaqueDeviceMemoryDataPointer": "buffer:pointer device_memory_ptr:pointer",
    "PJRT_CopyToDeviceStream_Destroy": "stream:pointer",
    "PJRT_CopyToDeviceStream_AddChunk": "stream:pointer chunk:pointer transfer_complete:pointer",
    "PJRT_CopyToDeviceStream_TotalBytes": "stream:pointer total_bytes:int64",
    "PJRT_CopyToDeviceStream_GranuleSize": "stream:pointer granule_size_in_bytes:int64",
    "PJRT_CopyToDeviceStream_CurrentBytes": "stream:pointer current_bytes:int64",
    "PJRT_TopologyDescription_Create": (
        "topology_name:pointer topology_name_size:size create_options:pointer num_options:size topology:pointer"
    ),
    "PJRT_TopologyDescription_Destroy": "topology:pointer",
    "PJRT_TopologyDescription_PlatformName": "topology:pointer platform_name:pointer platform_name_size:size",
    "PJRT_TopologyDescription_PlatformVersion": (
        "topology:pointer platform_version:pointer platform_version_size:size"
    ),
    "PJRT_TopologyDescription_GetDeviceDescriptions": "topology:pointer descriptions:pointer num_descriptions:size",
    "PJRT_TopologyDescription_Serialize": (
        "topology:pointer serialized_bytes:pointer serialized_bytes_size:size serialized_topology:pointer "
        "serialized_topology_deleter:pointer"
    ),
    "PJRT_TopologyDescription_Attributes": "topology:pointer attributes:pointer num_attributes:size",
    "PJRT_Compile": (
        "topology:pointer program:pointer compile_options:pointer compile_options_size:size client:pointer "
        "executable:pointer"
    ),
    "PJRT_Executable_OutputElementTypes": "executable:pointer output_types:pointer num_output_types:size",
    "PJRT_Executable_OutputDimensions": "executable:pointer num_outputs:size dims:pointer dim_sizes:pointer",
    "PJRT_Buffer_CopyToMemory": "buffer:pointer dst_memory:pointer dst_buffer:pointer",
    "PJRT_Client_CreateViewOfDeviceBuffer": (
        "client:pointer device_buffer_ptr:pointer dims:pointer num_dims:size element_type:int32 layout:pointer "
        "device:pointer on_delete_callback:pointer on_delete_callback_arg:pointer stream:int64 buffer:pointer "
        "memory:pointer"
    ),
    "PJRT_Executable_Fingerprint": (
        "executable:pointer executable_fingerprint:pointer executable_fingerprint_size:size"
    ),
    "PJRT_Client_TopologyDescription": "client:pointer topology:pointer",
    "PJRT_Executable_GetCompiledMemoryStats": (
        "executable:pointer generated_code_size_in_bytes:int64 argument_size_in_bytes:int64 "
        "output_size_in_bytes:int64 alias_size_in_bytes:int64 temp_size_in_bytes:int64 "
        "host_generated_code_size_in_bytes:int64 host_argument_size_in_bytes:int64 host_output_size_in_bytes:int64 "
        "host_alias_size_in_bytes:int64 host_temp_size_in_bytes:int64 peak_memory_in_bytes:int64 "
        "total_size_in_bytes:int64"
    ),
    "PJRT_Memory_Kind_Id": "memory:pointer kind_id:int32",
    "PJRT_ExecuteContext_Create": "context:pointer",
    "PJRT_ExecuteContext_Destroy": "context:pointer",
    "PJRT_Buffer_CopyRawToHost": "buffer:pointer dst:pointer offset:int64 transfer_size:int64 event:pointer",
    "PJRT_AsyncHostToDeviceTransferManager_Destroy": "transfer_manager:pointer",
    "PJRT_AsyncHostToDeviceTransferManager_TransferData": (
        "transfer_manager:pointer buffer_index:int32 data:pointer offset:int64 transfer_size:int64 "
        "is_last_transfer:bool done_with_h2d_transfer:pointer"
    ),
    "PJRT_Client_CreateBuffersForAsyncHostToDevice": (
        "client:pointer shape_specs:pointer num_shape_specs:size device_layouts:pointer num_device_layouts:size "
        "memory:pointer transfer_manager:pointer"
    ),
    "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer": (
        "transfer_manager:pointer buffer_index:int32 buffer_out:pointer"
    ),
    "PJRT_AsyncHostToDeviceTransferManager_Device": "transfer_manager:pointer device_out:pointer",
    "PJRT_AsyncHostToDeviceTransferManager_BufferCount": "transfer_manager:pointer buffer_count:size",
    "PJRT_AsyncHostToDeviceTransferManager_BufferSize": (
        "transfer_manager:pointer buffer_index:int32 buffer_size:size"
    ),
    "PJRT_AsyncHostToDeviceTransferManager_SetBufferError": (
        "transfer_manager:pointer buffer_index:int32 error_code:int32 error_message:pointer error_message_size:size"
    ),
    "PJRT_AsyncHostToDeviceTransferManager_AddMetadata": (
        "transfer_manager:pointer transfer_metadata:pointer num_metadata:size"
    ),
    "PJRT_Client_DmaMap": "client:pointer data:pointer size:size",
    "PJRT_Client_DmaUnmap": "client:pointer data:pointer",
    "PJRT_Client_CreateUninitializedBuffer": (
        "client:pointer shape_dims:pointer shape_num_dims:size shape_element_type:int32 shape_layout:pointer "
        "device:pointer memory:pointer buffer:pointer"
    ),
    "PJRT_Client_UpdateGlobalProcessInfo": "client:pointer process_infos:pointer num_process_infos:size",
    "PJRT_TopologyDescription_Deserialize": (
        "serialized_topology:pointer serialized_topology_size:size topology:pointer"
    ),
    "PJRT_Client_CreateAliasBuffer": (
        "client:pointer memory:pointer shape_dims:pointer shape_num_dims:size shape_element_type:int32 "
        "shape_layout:pointer alias_buffer:pointer fulfill_alias_buffer_cb:pointer"
    ),
    "PJRT_Client_FulfillAliasBuffer": (
        "client:pointer buffer:pointer status_code:int32 error_message:pointer error_message_size:size "
        "fulfill_alias_buffer_cb:pointer"
    ),
    "PJRT_LoadedExecutable_GetDeviceAssignment": (
        "executable:pointer serialized_bytes:pointer serialized_bytes_size:size "
        "serialized_device_assignment:pointer serialized_device_assignment_deleter:pointer"
    ),
    "PJRT_Client_CreateErrorBuffer": (
        "client:pointer error_code:int32 error_message:pointer error_message_size:size shape_dims:pointer "
        "shape_num_dims:size shape_element_type:int32 shape_layout:pointer memory:pointer buffer:pointer"
    ),
    "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral": (
        "transfer_manager:pointer buffer_index:int32 data:pointer shape_dims:pointer shape_num_dims:size "
        "shape_element_type:int32 shape_layout:pointer done_with_h2d_transfer:pointer"
    ),
    "PJRT_Buffer_CopyRawToHostFuture": (
        "buffer:pointer offset:int64 transfer_size:int64 event:pointer callback_data:pointer "
        "future_ready_callback:pointer"
    ),
    "PJRT_Device_PoisonExecution": (
        "device:pointer launch_id:int32 error_code:int32 error_message:pointer error_message_size:size poisoned:bool"
    ),
    "PJRT_Device_CreateAsyncTrackingEvent": "device:pointer description:pointer description_size:size event:pointer",
    "PJRT_AsyncTrackingEvent_Destroy": "event:pointer",
    "PJRT_Executable_GetCompileOptions": (
        "executable:pointer serialized_bytes:pointer serialized_bytes_size:size serialized_compile_options:pointer "
        "serialized_compile_options_deleter:pointer"
    ),
    "PJRT_Buffer_DonateWithControlDependency": (
        "buffer:pointer callback_data:pointer dependency_ready_callback:pointer out_buffer:pointer"
    ),
    "PJRT_Event_Create": "event:pointer",
    "PJRT_Event_Set": "event:pointer error_code:int32 error_message:pointer error_message_size:size",
    "PJRT_Device_GetAttributes": (
        "device:pointer attributes:pointer num_attributes:size device_attributes:pointer attributes_deleter:pointer"
    ),
    "PJRT_Client_Load": "",
    "PJRT_LoadedExecutable_AddressableDeviceLogicalIds": (
        "executable:pointer addressable_device_logical_ids:pointer num_addressable_device_logical_ids:size"
    ),
    "PJRT_Buffer_Bitcast": "",
    "PJRT_Error_ForEachPayload": "error:pointer visitor:pointer user_arg:pointer",
    "PJRT_TopologyDescription_Fingerprint": "topology:pointer fingerprint:size",
    "PJRT_Executable_ParameterMemoryKinds": (
        "executable:pointer num_parameters:size memory_kinds:pointer memory_kind_sizes:pointer"
    ),
    "PJRT_Device_ClearMemoryStats": "device:pointer",
    "PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace": "",
    "PJRT_TopologyDescription_GetMemorySpaceKindIds": "",
}

STRUCTS: dict[str, str] = {
    # structs with struct_size and extension_start in front, as the argument structs have them
    "PJRT_NamedValue": "name:pointer name_size:size type:int32 value:int64 value_size:size",
    "PJRT_KeyValueGetCallback_Args": (
        "key:pointer key_size:size timeout_in_ms:int32 callback_error:pointer user_arg:pointer value:pointer "
        "value_size:size value_deleter_callback:pointer"
    ),
    "PJRT_KeyValueTryGetCallback_Args": (
        "key:pointer key_size:size callback_error:pointer user_arg:pointer value:pointer value_size:size "
        "value_deleter_callback:pointer"
    ),
    "PJRT_KeyValuePutCallback_Args": (
        "key:pointer key_size:size value:pointer value_size:size callback_error:pointer user_arg:pointer"
    ),
    "PJRT_Program": "code:pointer code_size:size format:pointer format_size:size",
    "PJRT_Buffer_MemoryLayout_Tiled": (
        "minor_to_major:pointer minor_to_major_size:size tile_dims:pointer tile_dim_sizes:pointer num_tiles:size"
    ),
    "PJRT_Buffer_MemoryLayout_Strides": "byte_strides:pointer num_byte_strides:size",
    "PJRT_Buffer_MemoryLayout": "u:layout_union type:int32",
    "PJRT_ShapeSpec": "dims:pointer num_dims:size element_type:int32",
    "PJRT_ExecuteOptions": (
        "send_callbacks:pointer recv_callbacks:pointer num_send_ops:size num_recv_ops:size launch_id:int32 "
        "non_donatable_input_indices:pointer num_non_donatable_input_indices:size context:pointer "
        "call_location:pointer num_tasks:size task_ids:pointer incarnation_ids:pointer"
    ),
}

PLAIN_STRUCTS: dict[str, str] = {
    # all fields are listed
    "PJRT_ProcessInfo": (
        "struct_size:size task_id:int32 incarnation_id:size state:int32 error_code:int32 error_message:pointer "
        "error_message_size:size"
    ),
    "PJRT_Chunk": "data:pointer size:size deleter:pointer deleter_arg:pointer",
    "PJRT_SendCallbackInfo": "channel_id:int64 user_arg:pointer callback:pointer",
    "PJRT_RecvCallbackInfo": "channel_id:int64 user_arg:pointer callback:pointer",
    "PJRT_Buffer_CopyRawToHostFuture_Callback_Args": (
        "struct_size:size callback_data:pointer error_code:int32 error_message:pointer error_message_size:size "
        "dst:pointer"
    ),
    "PJRT_Buffer_DonateWithControlDependency_Callback_Args": (
        "struct_size:size callback_data:pointer error_code:int32 error_message:pointer error_message_size:size"
    ),
}

LAYOUTS_EXTENSION_TYPE = 4
LAYOUTS_FUNCTIONS: dict[str, str] = {
    # xla/pjrt/c/pjrt_c_api_layouts_extension.h, in the order of the extension's table
    "PJRT_Layouts_MemoryLayout_Destroy": "layout:pointer",
    "PJRT_Layouts_MemoryLayout_Serialize": (
        "layout:pointer serialized_bytes:pointer serialized_bytes_size:size serialized_layout:pointer "
        "serialized_layout_deleter:pointer"
    ),
    "PJRT_Layouts_PJRT_Client_GetDefaultLayout": (
        "client:pointer type:int32 dims:pointer num_dims:size layout:pointer"
    ),
    "PJRT_Layouts_PJRT_Buffer_MemoryLayout": "buffer:pointer layout:pointer",
    "PJRT_Layouts_PJRT_Topology_GetDefaultLayout": (
        "topology_description:pointer type:int32 dims:pointer num_dims:size layout:pointer"
    ),
    "PJRT_Layouts_PJRT_Executable_GetOutputLayouts": "executable:pointer num_outputs:size layouts:pointer",
    "PJRT_Layouts_PJRT_Executable_GetParameterLayouts": "executable:pointer num_parameters:size layouts:pointer",
}

_BUFFER_TYPES = (
    # enum PJRT_Buffer_Type, from 0
    "INVALID bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 complex64 "
    "complex128 float8_e5m2 float8_e4m3fn float8_e4m3b11fnuz float8_e5m2fnuz float8_e4m3fnuz int4 uint4 TOKEN "
    "int2 uint2 float8_e4m3 float8_e3m4 float8_e8m0fnu float4_e2m1fn"
)
BUFFER_TYPES = tuple(_BUFFER_TYPES.split())
