#include "kernels/convolution/onednn_weight_gradient.h"

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>

#include "accrue/core/error.h"
#include "kernels/convolution/compiled_cache.h"

namespace accrue::kernels::onednn {
namespace {

using Order = dnnl::memory::format_tag;

constexpr auto of_fp32 = dnnl::memory::data_type::f32;
constexpr bool may_be_none = true;

Order image_order(std::size_t dimensions, bool channels_last) {
  constexpr Order dense[] = {Order::ncw, Order::nchw, Order::ncdhw};
  constexpr Order last[] = {Order::nwc, Order::nhwc, Order::ndhwc};
  return (channels_last ? last : dense)[dimensions - 3];
}

dnnl::memory::desc pixels_of(const std::vector<std::int64_t>& sizes, bool channels_last) {
  return {sizes, of_fp32, image_order(sizes.size(), channels_last)};
}

dnnl::memory::desc in_any_layout(const dnnl::memory::desc& of) {
  return {of.get_dims(), of_fp32, Order::any};
}

dnnl::memory::desc weight_order(const WeightGradient& sizes) {
  dnnl::memory::dims weight = sizes.weight;
  constexpr Order dense[] = {Order::oiw, Order::oihw, Order::oidhw};
  constexpr Order grouped[] = {Order::goiw, Order::goihw, Order::goidhw};
  const std::size_t kind = weight.size() - 3;
  if (sizes.groups == 1) return {weight, of_fp32, dense[kind]};
  weight[0] /= sizes.groups;
  weight.insert(weight.begin(), sizes.groups);
  return {weight, of_fp32, grouped[kind]};
}

dnnl::convolution_backward_weights::primitive_desc describe_weight_gradient(
    const WeightGradient& sizes, const dnnl::engine& engine) {
  const dnnl::memory::desc x = in_any_layout(pixels_of(sizes.x, sizes.channels_last)),
                           grad = in_any_layout(pixels_of(sizes.grad, sizes.channels_last)),
                           weights = in_any_layout(weight_order(sizes));
  dnnl::memory::dims dilation = sizes.dilation;
  for (auto& pixels : dilation) --pixels;  // oneDNN counts those that are left out
  const dnnl::convolution_forward::primitive_desc forward(
      engine, dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, x, weights,
      grad, sizes.stride, dilation, sizes.padding, sizes.padding, with_given_scratchpad(),
      may_be_none);
  if (!forward) return {};
  return {engine,
          dnnl::algorithm::convolution_direct,
          x,
          weights,
          grad,
          sizes.stride,
          dilation,
          sizes.padding,
          sizes.padding,
          forward,
          with_given_scratchpad(),
          may_be_none};
}

/// Copies from one layout into another one, or adds to it.
dnnl::reorder arranging(const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool add,
                        const dnnl::engine& engine) {
  dnnl::primitive_attr attributes;
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  return dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to, attributes));
}

/// A gradient that is ready to run, or known to have no fast implementation.
struct CompiledGradient {
  bool supported = false;
  dnnl::convolution_backward_weights made_by;
  dnnl::memory::desc x, grad, made, scratchpad;  ///< in the required layouts
  dnnl::memory::desc given_x, given_grad, wanted;
  dnnl::reorder arrange_x, arrange_grad, write, add;
};

/// Whether grad has the pixels of such a convolution of x. A transposed one may have been called
/// with more.
bool is_of_one_convolution(const WeightGradient& sizes) {
  for (std::size_t i = 0; i < sizes.stride.size(); ++i) {
    const std::int64_t reach = sizes.dilation[i] * (sizes.weight[i + 2] - 1) + 1;
    const std::int64_t pixels = sizes.x[i + 2] + 2 * sizes.padding[i] - reach;
    if (pixels < 0 || pixels / sizes.stride[i] + 1 != sizes.grad[i + 2]) return false;
  }
  return true;
}

CompiledGradient compile_gradient(const WeightGradient& sizes, const dnnl::engine& engine) {
  if (!is_of_one_convolution(sizes)) return {};
  const auto description = describe_weight_gradient(sizes, engine);
  if (!is_fast(description)) return {};
  CompiledGradient result{.supported = true,
                          .made_by = dnnl::convolution_backward_weights(description),
                          .x = description.src_desc(),
                          .grad = description.diff_dst_desc(),
                          .made = description.diff_weights_desc(),
                          .scratchpad = description.scratchpad_desc(),
                          .given_x = pixels_of(sizes.x, sizes.channels_last),
                          .given_grad = pixels_of(sizes.grad, sizes.channels_last),
                          .wanted = weight_order(sizes)};
  result.arrange_x = arranging(result.given_x, result.x, false, engine);
  result.arrange_grad = arranging(result.given_grad, result.grad, false, engine);
  result.write = arranging(result.made, result.wanted, false, engine);
  result.add = arranging(result.made, result.wanted, true, engine);
  return result;
}

using WeightGradients = CompiledCache<WeightGradient, CompiledGradient>;

WeightGradients& shared_gradients() {
  static WeightGradients gradients;
  return gradients;
}

/// One run of a compiled gradient.
class GradientRun {
 public:
  GradientRun(const CompiledGradient& compiled, const Room& room)
      : compiled_(compiled), room_(room) {}

  void run(const float* x, const float* grad, float* into, bool add) {
    const dnnl::memory source =
                           arranged(compiled_.arrange_x, at(compiled_.given_x, x), compiled_.x),
                       upstream = arranged(compiled_.arrange_grad, at(compiled_.given_grad, grad),
                                           compiled_.grad);
    dnnl::memory wanted = at(compiled_.wanted, into);
    const bool is_direct = !add && compiled_.made == compiled_.wanted;
    dnnl::memory made = is_direct ? wanted : in_room(compiled_.made);
    compiled_.made_by.execute(stream_, {{DNNL_ARG_SRC, source},
                                        {DNNL_ARG_DIFF_DST, upstream},
                                        {DNNL_ARG_DIFF_WEIGHTS, made},
                                        {DNNL_ARG_SCRATCHPAD, in_room(compiled_.scratchpad)}});
    if (!is_direct) (add ? compiled_.add : compiled_.write).execute(stream_, made, wanted);
    stream_.wait();
  }

 private:
  const dnnl::engine& engine() const { return shared_gradients().engine(); }
  /// oneDNN's memory takes no pointer to const; sources are only read.
  dnnl::memory at(const dnnl::memory::desc& desc, const float* data) const {
    return {desc, engine(), const_cast<float*>(data)};
  }
  dnnl::memory in_room(const dnnl::memory::desc& desc) const {
    return {desc, engine(), room_(desc.get_size())};
  }
  dnnl::memory arranged(const dnnl::reorder& arrange, dnnl::memory given,
                        const dnnl::memory::desc& wanted) {
    if (given.get_desc() == wanted) return given;
    dnnl::memory to = in_room(wanted);
    arrange.execute(stream_, given, to);
    return to;
  }

  const CompiledGradient& compiled_;
  const Room& room_;
  dnnl::stream stream_{shared_gradients().engine()};
};

/// The result of `action` for the compiled gradient.
template <class Action>
auto with_compiled(const WeightGradient& sizes, const Action& action) {
  try {
    const std::shared_ptr<const CompiledGradient> compiled = shared_gradients().get(
        sizes, [&](const dnnl::engine& engine) { return compile_gradient(sizes, engine); });
    return action(*compiled);
  } catch (const dnnl::error& error) {
    throw runtime_error("convolution", "oneDNN to make its weight gradient", error.what(),
                        "a smaller micro-batch if memory is short, or model.accelerate = \"off\"");
  }
}

}  // namespace

bool has_weight_gradient(const WeightGradient& sizes) {
  return with_compiled(sizes, [](const CompiledGradient& compiled) { return compiled.supported; });
}

void weight_gradient(const WeightGradient& sizes, const float* x, const float* grad, float* into,
                     bool add, const Room& room) {
  with_compiled(sizes, [&](const CompiledGradient& compiled) {
    GradientRun(compiled, room).run(x, grad, into, add);
  });
}

}  // namespace accrue::kernels::onednn
