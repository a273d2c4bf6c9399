#include "kernels/convolution/onednn_convolution.h"

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "accrue/core/error.h"
#include "kernels/convolution/compiled_cache.h"
#include "kernels/gemm/growing_buffer.h"

namespace accrue::kernels::onednn {
namespace {

using Layout = dnnl::memory::format_tag;
using DataType = dnnl::memory::data_type;
using Arguments = std::unordered_map<int, dnnl::memory>;

enum class Pass { forward, data_gradient, weight_gradient };

dnnl::memory::desc image_of(std::int64_t batch, std::int64_t channels, std::int64_t height,
                            std::int64_t width, DataType type) {
  return {{batch, channels, height, width}, type, Layout::nhwc};
}

dnnl::memory::desc input_of(const Convolution& c, DataType type) {
  return image_of(c.batch, c.in, c.height, c.width, type);
}

dnnl::memory::desc output_of(const Convolution& c, DataType type) {
  return image_of(c.batch, c.out, c.out_height, c.out_width, type);
}

dnnl::memory::desc weights_of(const Convolution& c, DataType type, Layout tag) {
  return {{c.out, c.in, c.kernel, c.kernel}, type, tag};
}

constexpr bool may_be_empty = true;

dnnl::convolution_forward::primitive_desc describe_forward(const Convolution& c,
                                                           const dnnl::engine& engine) {
  const dnnl::memory::dims strides(2, c.stride), padding(2, c.padding);
  return {engine,
          dnnl::prop_kind::forward_training,
          dnnl::algorithm::convolution_direct,
          input_of(c, DataType::bf16),
          weights_of(c, DataType::bf16, Layout::any),
          output_of(c, DataType::f32),
          strides,
          padding,
          padding,
          with_given_scratchpad(),
          may_be_empty};
}

/// Describes a backward pass: its result, the image or the weights, is fp32, the other bf16.
template <class Description>
Description describe_gradient(const Convolution& c, const dnnl::engine& engine, DataType image,
                              DataType weights) {
  const dnnl::memory::dims strides(2, c.stride), padding(2, c.padding);
  const auto forward = describe_forward(c, engine);
  if (!forward) return {};
  return {engine,
          dnnl::algorithm::convolution_direct,
          input_of(c, image),
          weights_of(c, weights, Layout::any),
          output_of(c, DataType::bf16),
          strides,
          padding,
          padding,
          forward,
          with_given_scratchpad(),
          may_be_empty};
}

/// A pass that is ready to run, or known to have no fast implementation.
struct CompiledPass {
  bool supported = false;
  dnnl::primitive primitive;
  dnnl::memory::desc weights, scratchpad;  ///< weights in the layout that the pass requires
};

template <class Primitive, class Description>
CompiledPass compile(const Description& description, const dnnl::memory::desc& weights) {
  if (!is_fast(description)) return {};
  return {.supported = true,
          .primitive = Primitive(description),
          .weights = weights,
          .scratchpad = description.scratchpad_desc()};
}

CompiledPass compile(Pass pass, const Convolution& c, const dnnl::engine& engine) {
  if (pass == Pass::forward) {
    const auto description = describe_forward(c, engine);
    return description ? compile<dnnl::convolution_forward>(description, description.weights_desc())
                       : CompiledPass();
  }
  if (pass == Pass::data_gradient) {
    const auto description = describe_gradient<dnnl::convolution_backward_data::primitive_desc>(
        c, engine, DataType::f32, DataType::bf16);
    return description
               ? compile<dnnl::convolution_backward_data>(description, description.weights_desc())
               : CompiledPass();
  }
  const auto description = describe_gradient<dnnl::convolution_backward_weights::primitive_desc>(
      c, engine, DataType::bf16, DataType::f32);
  return description ? compile<dnnl::convolution_backward_weights>(description,
                                                                   description.diff_weights_desc())
                     : CompiledPass();
}

using Passes = CompiledCache<std::pair<Pass, Convolution>, CompiledPass>;

/// The engine of the process, like that of products.
Passes& shared_passes() {
  static Passes passes;
  return passes;
}

/// The memory of a thread's passes besides their operands.
struct PassWorkspace {
  dnnl::stream stream{shared_passes().engine()};
  GrowingBuffer scratchpad, weights;
};

dnnl::memory memory_in(GrowingBuffer& buffer, const dnnl::memory::desc& desc) {
  return {desc, shared_passes().engine(), buffer.of(desc.get_size())};
}

PassWorkspace& workspace() {
  thread_local PassWorkspace workspace;
  return workspace;
}

/// oneDNN's memory takes no pointer to const; sources are only read.
dnnl::memory memory_at(const dnnl::memory::desc& desc, const void* data) {
  return {desc, shared_passes().engine(), const_cast<void*>(data)};
}

/// The weights in the layout that the pass requires.
dnnl::memory arranged(const dnnl::memory& weights, const dnnl::memory::desc& wanted,
                      PassWorkspace& space) {
  if (weights.get_desc() == wanted) return weights;
  dnnl::memory from = weights, to = memory_in(space.weights, wanted);
  dnnl::reorder(from, to).execute(space.stream, from, to);
  return to;
}

void execute(const CompiledPass& compiled, Arguments arguments, PassWorkspace& space) {
  arguments.emplace(DNNL_ARG_SCRATCHPAD, memory_in(space.scratchpad, compiled.scratchpad));
  compiled.primitive.execute(space.stream, arguments);
}

/// Calls run(compiled, workspace) if there is such a pass.
template <class Run>
bool run_pass(Pass pass, const Convolution& sizes, const Run& run) {
  try {
    const std::shared_ptr<const CompiledPass> compiled = shared_passes().get(
        {pass, sizes}, [&](const dnnl::engine& engine) { return compile(pass, sizes, engine); });
    if (compiled->supported) run(*compiled, workspace());
    return compiled->supported;
  } catch (const dnnl::error& error) {
    throw runtime_error("convolution", "oneDNN to run it", error.what(),
                        "a smaller micro-batch if memory is short");
  }
}

}  // namespace

bool convolve(const Convolution& sizes, const void* x, const void* weight, float* result) {
  return run_pass(Pass::forward, sizes, [&](const CompiledPass& compiled, PassWorkspace& space) {
    const dnnl::memory weights = memory_at(weights_of(sizes, DataType::bf16, Layout::oihw), weight);
    execute(compiled,
            {{DNNL_ARG_SRC, memory_at(input_of(sizes, DataType::bf16), x)},
             {DNNL_ARG_WEIGHTS, arranged(weights, compiled.weights, space)},
             {DNNL_ARG_DST, memory_at(output_of(sizes, DataType::f32), result)}},
            space);
  });
}

bool convolution_data_gradient(const Convolution& sizes, const void* grad, const void* weight,
                               float* x_gradient) {
  return run_pass(
      Pass::data_gradient, sizes, [&](const CompiledPass& compiled, PassWorkspace& space) {
        const dnnl::memory weights =
            memory_at(weights_of(sizes, DataType::bf16, Layout::oihw), weight);
        execute(compiled,
                {{DNNL_ARG_DIFF_DST, memory_at(output_of(sizes, DataType::bf16), grad)},
                 {DNNL_ARG_WEIGHTS, arranged(weights, compiled.weights, space)},
                 {DNNL_ARG_DIFF_SRC, memory_at(input_of(sizes, DataType::f32), x_gradient)}},
                space);
      });
}

bool convolution_weight_gradient(const Convolution& sizes, const void* x, const void* grad,
                                 float* weight_gradient) {
  return run_pass(
      Pass::weight_gradient, sizes, [&](const CompiledPass& compiled, PassWorkspace& space) {
        dnnl::memory wanted =
            memory_at(weights_of(sizes, DataType::f32, Layout::oihw), weight_gradient);
        const bool is_direct = wanted.get_desc() == compiled.weights;
        dnnl::memory made = is_direct ? wanted : memory_in(space.weights, compiled.weights);
        execute(compiled,
                {{DNNL_ARG_SRC, memory_at(input_of(sizes, DataType::bf16), x)},
                 {DNNL_ARG_DIFF_DST, memory_at(output_of(sizes, DataType::bf16), grad)},
                 {DNNL_ARG_DIFF_WEIGHTS, made}},
                space);
        if (!is_direct) dnnl::reorder(made, wanted).execute(space.stream, made, wanted);
      });
}

}  // namespace accrue::kernels::onednn
