#include "accrue/kernels/embedding.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <sstream>

#include "accrue/core/error.h"
#include "accrue/kernels/grad_slot.h"
#include "aten_element.h"
#include "first_order.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t grain_elements = 16384;

struct Shape {
  std::int64_t batch, length, channels;

  std::int64_t rows() const { return batch * length; }
};

Shape shape_of(const at::Tensor& ids, const at::Tensor& token_table) {
  return {ids.size(0), ids.size(1), token_table.size(1)};
}

void expect_tables(const at::Tensor& ids, const at::Tensor& tokens, const at::Tensor& positions) {
  expect_on_cpu(ids, "embed_tokens");
  expect_on_cpu(tokens, "embed_tokens");
  const at::ScalarType dtype = tokens.scalar_type();
  const bool shapes = ids.dim() == 2 && tokens.dim() == 2 && positions.dim() == 2 &&
                      positions.size(1) == tokens.size(1) && positions.size(0) >= ids.size(1);
  const bool dtypes = ids.scalar_type() == at::kLong && positions.scalar_type() == dtype &&
                      (dtype == at::kFloat || dtype == at::kDouble);
  if (shapes && dtypes) return;
  std::ostringstream received;
  received << "ids " << c10::toString(ids.scalar_type()) << ' ' << ids.sizes() << ", tables "
           << c10::toString(dtype) << ' ' << tokens.sizes() << " and "
           << c10::toString(positions.scalar_type()) << ' ' << positions.sizes();
  throw usage_error("embed_tokens",
                    "int64 ids [B, T], tables [V, C] and [P >= T, C] in fp32 or fp64",
                    received.str(), "shorter sequences or a model with a longer context");
}

void expect_ids(const at::Tensor& ids, std::int64_t vocabulary) {
  const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    if (id[i] < 0 || id[i] >= vocabulary)
      throw usage_error("embed_tokens", "token ids in [0, " + std::to_string(vocabulary) + ")",
                        std::to_string(id[i]) + " at position " + std::to_string(i),
                        "checking that the tokenizer belongs to the model");
}

/// body(T{}) with T the elements' type.
template <class Body>
void with_type_of(const at::Tensor& tensor, Body body) {
  if (tensor.scalar_type() == at::kDouble)
    body(double{});
  else
    body(float{});
}

template <class T>
void look_up(const at::Tensor& ids, const at::Tensor& tokens, const at::Tensor& positions,
             at::Tensor& out) {
  const Shape shape = shape_of(ids, tokens);
  const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
  const T *token = tokens.const_data_ptr<T>(), *position = positions.const_data_ptr<T>();
  T* result = out.mutable_data_ptr<T>();
  at::parallel_for(
      0, shape.rows(),
      std::max<std::int64_t>(1, grain_elements / std::max<std::int64_t>(1, shape.channels)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const T* a = token + id[row] * shape.channels;
          const T* b = position + row % shape.length * shape.channels;
          T* sum = result + row * shape.channels;
          for (std::int64_t c = 0; c < shape.channels; ++c) sum[c] = a[c] + b[c];
        }
      });
}

/// table[ids[r]] += grad[r] for every row, in order. Threads share out the columns, so the order
/// of the additions to an element does not depend on them.
template <class T>
void add_rows(const at::Tensor& ids, const at::Tensor& grad, at::Tensor& table) {
  constexpr std::int64_t group = 64;  // columns; whole cache lines for each thread
  const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
  const std::int64_t rows = ids.numel(), channels = table.size(1);
  const T* source = grad.const_data_ptr<T>();
  T* sums = table.mutable_data_ptr<T>();
  const std::int64_t grain =
      std::max<std::int64_t>(1, grain_elements / std::max<std::int64_t>(1, rows * group));
  at::parallel_for(
      0, (channels + group - 1) / group, grain, [&](std::int64_t first, std::int64_t last) {
        const std::int64_t begin = first * group, end = std::min(channels, last * group);
        for (std::int64_t row = 0; row < rows; ++row) {
          const T* from = source + row * channels;
          T* to = sums + id[row] * channels;
          for (std::int64_t c = begin; c < end; ++c) to[c] += from[c];
        }
      });
}

/// table[t] (+)= the sum over the batch of grad[b, t].
template <class T>
void add_positions(const Shape& shape, const at::Tensor& grad, at::Tensor& table, bool accumulate) {
  const T* source = grad.const_data_ptr<T>();
  T* sums = table.mutable_data_ptr<T>();
  const std::int64_t per_position = shape.batch * shape.channels;
  at::parallel_for(
      0, shape.length,
      std::max<std::int64_t>(1, grain_elements / std::max<std::int64_t>(1, per_position)),
      [&](std::int64_t begin, std::int64_t end) {
        // Summed apart, so that a micro-batch rounds at its own magnitude.
        std::vector<T> sum(static_cast<std::size_t>(shape.channels));
        for (std::int64_t t = begin; t < end; ++t) {
          std::fill(sum.begin(), sum.end(), T{0});
          for (std::int64_t b = 0; b < shape.batch; ++b) {
            const T* from = source + (b * shape.length + t) * shape.channels;
            for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += from[c];
          }
          T* to = sums + t * shape.channels;
          for (std::size_t c = 0; c < sum.size(); ++c) to[c] = accumulate ? to[c] + sum[c] : sum[c];
        }
      });
}

at::Tensor token_gradient(const at::Tensor& ids, const at::Tensor& grad, const at::Tensor& table) {
  const auto add = [&](at::Tensor& sums) {
    with_type_of(sums, [&](auto zero) { add_rows<decltype(zero)>(ids, grad, sums); });
  };
  if (GradSlot* slot = open_slot_of(table)) {
    if (slot->fresh) slot->main.zero_();
    add(slot->main);
    slot->done();
    return {};
  }
  at::Tensor gradient = at::zeros(table.sizes(), table.options());
  add(gradient);
  return gradient;
}

at::Tensor position_gradient(const Shape& shape, const at::Tensor& grad, const at::Tensor& table) {
  const auto add = [&](at::Tensor& sums, bool accumulate) {
    if (!accumulate) sums.narrow(0, shape.length, sums.size(0) - shape.length).zero_();
    with_type_of(sums,
                 [&](auto zero) { add_positions<decltype(zero)>(shape, grad, sums, accumulate); });
  };
  if (GradSlot* slot = open_slot_of(table)) {
    add(slot->main, !slot->fresh);
    slot->done();
    return {};
  }
  at::Tensor gradient = at::empty(table.sizes(), table.options());
  add(gradient, false);
  return gradient;
}

class EmbedTokens : public torch::autograd::Function<EmbedTokens> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& ids,
                            const at::Tensor& tokens, const at::Tensor& positions) {
    context->save_for_backward({ids, tokens, positions});
    at::Tensor x = at::empty({ids.size(0), ids.size(1), tokens.size(1)}, tokens.options());
    const at::Tensor token_rows = tokens.contiguous(), position_rows = positions.contiguous();
    with_type_of(x, [&](auto zero) { look_up<decltype(zero)>(ids, token_rows, position_rows, x); });
    return x;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    expect_first_order("embed_tokens");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &ids = saved[0], &tokens = saved[1], &positions = saved[2];
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor grad_tokens, grad_positions;
    if (context->needs_input_grad(1)) grad_tokens = token_gradient(ids, grad, tokens);
    if (context->needs_input_grad(2))
      grad_positions = position_gradient(shape_of(ids, tokens), grad, positions);
    return {at::Tensor(), grad_tokens, grad_positions};
  }
};

}  // namespace

at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                        const at::Tensor& position_table) {
  expect_tables(ids, token_table, position_table);
  const at::Tensor rows = ids.contiguous();
  expect_ids(rows, token_table.size(0));
  return EmbedTokens::apply(rows, token_table, position_table);
}

}  // namespace accrue::kernels
