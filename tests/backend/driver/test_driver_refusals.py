"""What a slice does not do it says in the script that asked, and goes on."""

from __future__ import annotations


def test_bad_programs_and_buffers_are_clear_errors_and_the_slice_goes_on(run) -> None:
    run("""
        import jax, jax.numpy as jnp, numpy as np
        from jax._src.compiler import get_compile_options
        from jaxlib import xla_client

        def compile(module, replicas=1):
            devices = xla_client.DeviceList(tuple(jax.devices()[:replicas]))
            jax.devices()[0].client.compile_and_load(module, devices, get_compile_options(replicas, 1))

        def function(body):
            return "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {" + body + " return %a : tensor<4xf32> }"

        TOKEN = "%t = stablehlo.create_token : !stablehlo.token "
        INFEED = '%i:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)'
        OUTFEED = '%o = "stablehlo.outfeed"(%a, %t) : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token'
        donated = jnp.ones(4)
        donating = jax.jit(lambda a: a + 1, donate_argnums=0)
        donating(donated)
        fresh = jnp.ones(4)
        mesh = jax.make_mesh((8,), ("x",))
        program = jax.jit(lambda a: a + 1).lower(jnp.ones(4)).compile().runtime_executable().serialize()
        elsewhere = program.replace(b"v3-8", b"v2-8")
        one = xla_client.DeviceList(tuple(jax.devices()[:1]))
        unknown = lambda a: jax.ffi.ffi_call("nobody_knows", jax.ShapeDtypeStruct((4,), "float32"))(a)

        for attempt, text in {
            "cut": (lambda: jax.device_put(jnp.ones(9), jax.NamedSharding(mesh, jax.P("x"))), "does not evenly divide"),
            "call": (lambda: jax.jit(unknown)(jnp.ones(4)), "custom call nobody_knows is not supported"),
            "junk": (lambda: compile(b"junk"), "error"),
            "no main": (lambda: compile("module {}"), "must have a main function"),
            "infeed": (lambda: compile(function(TOKEN + INFEED)), "infeed is not there on this device; pass the"),
            "outfeed": (lambda: compile(function(TOKEN + OUTFEED)), "outfeed is not there on this device; return"),
            "replicas": (lambda: compile(function(""), replicas=2), "several replicas are not supported"),
            "donated": (lambda: donated + 1, "deleted"),
            "twice": (lambda: donating(donated), "deleted"),
            "both": (lambda: jax.jit(lambda a, b: a + b, donate_argnums=0)(fresh, fresh), "uses twice"),
            "option": (lambda: jax.jit(lambda a: a, compiler_options={"no_key": 1})(fresh), "No such compile option"),
            "elsewhere": (lambda: jax.devices()[0].client.deserialize_executable(elsewhere, one), "for a v2-8 slice"),
            "damaged": (lambda: jax.devices()[0].client.deserialize_executable(program[:-9], one), "is damaged"),
            "dlpack": (lambda: np.from_dlpack(jnp.ones(4)), "copy the array to the host with np.asarray"),
        }.values():
            try:
                attempt()
                raise SystemExit("no error: " + text)
            except (RuntimeError, ValueError) as error:
                assert text in str(error), error
        assert (jnp.ones(4) + 1).tolist() == [2] * 4
    """)
