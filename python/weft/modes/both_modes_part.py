# By `weft run --mode both`: what stands above is for one mode, and this for the
# other, whose module's text is _weft_other_text ("": no kernel of ours was
# faster in it).
import functools
import linecache
import types


def _weft_module(text):
    """That module under this one's name, by which it knows the file's own
    classes."""
    own = globals().get("__file__", __name__)
    file = f"<weft, the other mode of {own}>"
    # Triton reads the text of its kernels through linecache.
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    module = types.ModuleType(__name__)
    module.__file__ = own
    exec(compile(text, file, "exec"), module.__dict__)
    return module


def _weft_by_mode(own_forward, other):
    """forward() of ModelNew, which goes by self.training; of `other` there is
    nothing but its forward(): parameters, settings and the original are this
    class's."""

    @functools.wraps(own_forward)
    def forward(self, *args, **kwargs):
        global _weft_passed_on
        if self.training is _weft_own_mode:
            return own_forward(self, *args, **kwargs)
        if other is None:
            return self.forward_reference(*args, **kwargs)
        other._weft_passed_on = ""
        result = other.ModelNew.forward(self, *args, **kwargs)
        if other._weft_passed_on:
            _weft_passed_on = other._weft_passed_on
        return result

    return forward


ModelNew.forward = _weft_by_mode(
    ModelNew.forward, _weft_module(_weft_other_text) if _weft_other_text else None
)
