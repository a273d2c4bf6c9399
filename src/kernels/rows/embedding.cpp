#include "accrue/kernels/embedding.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/kernels/grad_slot.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/backend.h"
#include "kernels/checked_labels.h"
#include "kernels/cpu_passes.h"
#include "kernels/first_order.h"
#include "kernels/grain.h"
#include "kernels/rows/token_gradient.h"
#include "kernels/saved_value.h"
#include "kernels/spans.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Parts parts_of(const at::Tensor& ids, const std::vector<SampleSpan>& spans) {
  Parts parts;
  for (const SampleSpan& span : spans)
    parts.push_back(
        {.begin = span.row * ids.size(1) + span.begin, .length = span.end - span.begin});
  return parts;
}

/// `positions` may be undefined.
void expect_tables(const at::Tensor& ids, const at::Tensor& tokens, const at::Tensor& positions) {
  const at::ScalarType dtype = tokens.scalar_type();
  const bool fits = !positions.defined() ||
                    (positions.dim() == 2 && tokens.dim() == 2 &&
                     positions.size(1) == tokens.size(1) && positions.scalar_type() == dtype);
  const bool frozen =
      !tokens.requires_grad() && !(positions.defined() && positions.requires_grad());
  if (fits && ids.dim() == 2 && tokens.dim() == 2 && ids.scalar_type() == at::kLong &&
      (dtype == at::kFloat || dtype == at::kDouble || (dtype == at::kBFloat16 && frozen)))
    return;
  throw usage_error(
      "embed_tokens",
      "int64 ids [B, T], tables [V, C] and [P, C] in fp32 or fp64, or in bf16 where frozen",
      "ids " + text_of(ids) + ", tables " + text_of(tokens) + " and " + text_of(positions),
      "tables of one width and dtype");
}

void expect_positions(const at::Tensor& positions, std::int64_t length) {
  if (positions.defined() && length > positions.size(0))
    throw usage_error(
        "embed_tokens", "samples of at most " + std::to_string(positions.size(0)) + " positions",
        std::to_string(length), "shorter samples or a model with a longer context (model.context)");
}

void expect_ids(const at::Tensor& ids, std::int64_t vocabulary) {
  const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    if (id[i] < 0 || id[i] >= vocabulary)
      throw usage_error("embed_tokens", "token ids in [0, " + std::to_string(vocabulary) + ")",
                        std::to_string(id[i]) + " at position " + std::to_string(i),
                        "checking that the tokenizer belongs to the model");
}

/// Calls body(T{}) with T the elements' type.
template <class Body>
void with_type_of(const at::Tensor& tensor, Body body) {
  if (tensor.scalar_type() == at::kDouble)
    body(double{});
  else
    body(float{});
}

/// The position of each row of x in its sample; -1 if no part covers the row.
std::vector<std::int64_t> positions_of(const Parts& parts, std::int64_t rows) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(rows), -1);
  for (const Part& part : parts)
    std::iota(positions.begin() + part.begin, positions.begin() + part.begin + part.length, 0);
  return positions;
}

/// Rows of tables of `Stored` as T. `positions` may be undefined.
template <class T, class Stored = T>
void look_up_as(const Parts& parts, const at::Tensor& ids, const at::Tensor& tokens,
                const at::Tensor& positions, at::Tensor& out) {
  const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
  const Stored* token = tokens.const_data_ptr<Stored>();
  const Stored* position = positions.defined() ? positions.const_data_ptr<Stored>() : nullptr;
  T* result = out.mutable_data_ptr<T>();
  const std::int64_t channels = tokens.size(1);
  const std::vector<std::int64_t> place = positions_of(parts, ids.numel());
  at::parallel_for(0, ids.numel(), grain_of(channels), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* sum = result + row * channels;
      const std::int64_t t = place[static_cast<std::size_t>(row)];
      if (t < 0) {
        std::fill_n(sum, channels, T{0});
        continue;
      }
      const Stored* a = token + id[row] * channels;
      if (position == nullptr) {
        std::copy_n(a, channels, sum);
        continue;
      }
      const Stored* b = position + t * channels;
      for (std::int64_t c = 0; c < channels; ++c) sum[c] = T{a[c]} + T{b[c]};
    }
  });
}

/// table[ids[r]] += grad[r] for every row of the parts, in order. Threads divide the columns, so
/// the order of the additions to an element does not depend on them.
template <class T>
void add_rows_as(const Parts& parts, const at::Tensor& ids, const at::Tensor& grad,
                 at::Tensor& table) {
  constexpr std::int64_t group = 64;  // columns; whole cache lines for each thread
  const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
  const std::int64_t channels = table.size(1);
  const T* source = grad.const_data_ptr<T>();
  T* sums = table.mutable_data_ptr<T>();
  at::parallel_for(0, (channels + group - 1) / group, grain_of(ids.numel() * group),
                   [&](std::int64_t first, std::int64_t last) {
                     const std::int64_t begin = first * group,
                                        end = std::min(channels, last * group);
                     for (const Part& part : parts)
                       for (std::int64_t t = 0; t < part.length; ++t) {
                         const std::int64_t row = part.begin + t;
                         const T* from = source + row * channels;
                         T* to = sums + id[row] * channels;
                         for (std::int64_t c = begin; c < end; ++c) to[c] += from[c];
                       }
                   });
}

std::int64_t longest_of(const Parts& parts) {
  std::int64_t length = 0;
  for (const Part& part : parts) length = std::max(length, part.length);
  return length;
}

/// table[t] (+)= the sum of grad at position t of every part.
template <class T>
void add_positions_as(const Parts& parts, const at::Tensor& grad, at::Tensor& table,
                      bool accumulate) {
  const T* source = grad.const_data_ptr<T>();
  T* sums = table.mutable_data_ptr<T>();
  const std::int64_t channels = table.size(1);
  const auto per_position = static_cast<std::int64_t>(parts.size()) * channels;
  at::parallel_for(0, longest_of(parts), grain_of(per_position),
                   [&](std::int64_t begin, std::int64_t end) {
                     // The sum is separate, so that a micro-batch rounds at its own size.
                     std::vector<T> sum(static_cast<std::size_t>(channels));
                     for (std::int64_t t = begin; t < end; ++t) {
                       std::fill(sum.begin(), sum.end(), T{0});
                       for (const Part& part : parts) {
                         if (t >= part.length) continue;
                         const T* from = source + (part.begin + t) * channels;
                         for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += from[c];
                       }
                       T* to = sums + t * channels;
                       for (std::size_t c = 0; c < sum.size(); ++c)
                         to[c] = accumulate ? to[c] + sum[c] : sum[c];
                     }
                   });
}

}  // namespace

at::Tensor cpu::look_up(const Parts& parts, const at::Tensor& ids, const at::Tensor& tokens,
                        const at::Tensor& positions) {
  const bool narrow = tokens.scalar_type() == at::kBFloat16;
  at::Tensor x = at::empty({ids.size(0), ids.size(1), tokens.size(1)},
                           narrow ? tokens.options().dtype(at::kFloat) : tokens.options());
  RECORD_FUNCTION("accrue::embed_tokens", span_of({x}));
  const at::Tensor token_rows = tokens.contiguous(),
                   position_rows = positions.defined() ? positions.contiguous() : positions;
  if (narrow)
    look_up_as<float, at::BFloat16>(parts, ids, token_rows, position_rows, x);
  else
    with_type_of(x, [&](auto zero) {
      look_up_as<decltype(zero)>(parts, ids, token_rows, position_rows, x);
    });
  return x;
}

void cpu::add_rows(const Parts& parts, const at::Tensor& ids, const at::Tensor& grad,
                   at::Tensor& table) {
  with_type_of(table, [&](auto zero) { add_rows_as<decltype(zero)>(parts, ids, grad, table); });
}

void cpu::add_positions(const Parts& parts, const at::Tensor& grad, at::Tensor& table,
                        bool accumulate) {
  with_type_of(
      table, [&](auto zero) { add_positions_as<decltype(zero)>(parts, grad, table, accumulate); });
}

at::Tensor token_gradient(const Parts& parts, const at::Tensor& ids, const at::Tensor& grad,
                          const at::Tensor& table) {
  const auto add = [&](at::Tensor& sums) { backend_of(sums).add_rows(parts, ids, grad, sums); };
  if (GradSlot* slot = open_slot_of(table)) {
    Contribution to = slot->contribute();
    if (!to.add) to.into.zero_();
    add(to.into);
    slot->done();
    return {};
  }
  at::Tensor gradient = at::zeros(table.sizes(), table.options());
  add(gradient);
  return gradient;
}

namespace {

at::Tensor position_gradient(const Parts& parts, const at::Tensor& grad, const at::Tensor& table) {
  const std::int64_t length = longest_of(parts);
  const auto add = [&](at::Tensor& sums, bool accumulate) {
    if (!accumulate) sums.narrow(0, length, sums.size(0) - length).zero_();
    backend_of(sums).add_positions(parts, grad, sums, accumulate);
  };
  if (GradSlot* slot = open_slot_of(table)) {
    Contribution to = slot->contribute();
    add(to.into, to.add);
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
                            const at::Tensor& tokens,
                            const std::optional<at::Tensor>& position_table,
                            const std::vector<SampleSpan>& spans) {
    const at::Tensor positions = position_table.value_or(at::Tensor());
    const Parts parts = parts_of(ids, spans);
    context->saved_data["parts"] = to_saved(parts);
    context->save_for_backward({ids, tokens, positions});
    return backend_of(tokens).look_up(parts, ids, tokens, positions);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    expect_first_order("embed_tokens");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &ids = saved[0], &tokens = saved[1], &positions = saved[2];
    const auto& parts = from_saved<Parts>(context->saved_data["parts"]);
    const at::Tensor grad = grads[0].contiguous();
    RECORD_FUNCTION("accrue::embed_tokens_backward", span_of({grad}));
    at::Tensor grad_tokens, grad_positions;
    if (context->needs_input_grad(1)) grad_tokens = token_gradient(parts, ids, grad, tokens);
    if (positions.defined() && context->needs_input_grad(2))
      grad_positions = position_gradient(parts, grad, positions);
    return {at::Tensor(), grad_tokens, grad_positions, at::Tensor()};
  }
};

/// Ids are checked in host memory; kernels on a device copy them from there.
at::Tensor checked(const at::Tensor& ids, std::int64_t vocab) {
  if (are_checked(ids)) return ids.contiguous();
  at::Tensor rows = ids.cpu().contiguous();
  expect_ids(rows, vocab);
  return rows;
}

}  // namespace

at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                        const at::Tensor& position_table, const std::vector<SampleSpan>& spans) {
  expect_tables(ids, token_table, position_table);
  const std::vector<SampleSpan> samples =
      spans_or_rows("embed_tokens", spans, ids.size(0), ids.size(1));
  expect_positions(position_table, longest(samples));
  const at::Tensor rows = checked(ids, token_table.size(0));
  const std::optional<at::Tensor> positions =
      position_table.defined() ? std::optional(position_table) : std::nullopt;
  return EmbedTokens::apply(rows, token_table, positions, samples);
}

}  // namespace accrue::kernels
