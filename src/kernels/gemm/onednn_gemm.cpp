#include "kernels/gemm/onednn_gemm.h"

#include <compare>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "accrue/core/error.h"
#include "kernels/gemm/growing_buffer.h"

namespace accrue::kernels::onednn {
namespace {

dnnl::memory::data_type type_of(Type type) {
  return type == Type::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc desc_of(const Operand& operand, std::size_t dimensions) {
  const auto count = static_cast<std::ptrdiff_t>(dimensions);
  return {dnnl::memory::dims(operand.sizes.begin(), operand.sizes.begin() + count),
          type_of(operand.type),
          dnnl::memory::dims(operand.strides.begin(), operand.strides.begin() + count)};
}

dnnl::memory::desc bias_desc_of(const Product& product) {
  dnnl::memory::dims sizes(product.dimensions, 1), strides(product.dimensions);
  sizes.back() = product.out.sizes[product.dimensions - 1];
  strides.assign(product.dimensions, sizes.back());
  strides.back() = 1;
  return {sizes, type_of(product.bias_type), strides};
}

/// The reference implementation supports any shape, and is a hundred times slower than ATen.
bool is_reference(const dnnl::matmul::primitive_desc& description) {
  return std::string_view(description.impl_info_str()).find("ref") != std::string_view::npos;
}

/// Rows of the left operand for which a layout is selected; products of other heights read it, too.
constexpr std::int64_t rows_packed_for = 256;

/// The type and size of a right operand, which determine its layout.
struct Shape {
  Type type;
  std::int64_t k, n;
  auto operator<=>(const Shape&) const = default;
};

Shape shape_of(const Operand& b) { return {b.type, b.sizes[0], b.sizes[1]}; }

/// The layout that oneDNN prefers for a right operand; nothing if that is a plain one.
std::optional<dnnl::memory::desc> choose_layout(const Shape& shape, const dnnl::engine& engine) {
  using Tag = dnnl::memory::format_tag;
  const auto type = type_of(shape.type);
  const dnnl::memory::desc a({rows_packed_for, shape.k}, type, Tag::ab),
      b({shape.k, shape.n}, type, Tag::any), out({rows_packed_for, shape.n}, type, Tag::ab);
  constexpr bool allow_empty = true;
  const dnnl::matmul::primitive_desc description(engine, a, b, out, dnnl::primitive_attr(),
                                                 allow_empty);
  if (!description || is_reference(description)) return std::nullopt;
  dnnl::memory::desc chosen = description.weights_desc();
  if (chosen.get_inner_nblks() == 0) return std::nullopt;
  return chosen;
}

dnnl::matmul::primitive_desc describe(const Product& product, const dnnl::memory::desc& b,
                                      const dnnl::engine& engine) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (product.accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.0F);
    attributes.set_post_ops(operations);
  }
  const dnnl::memory::desc a = desc_of(product.a, product.dimensions),
                           out = desc_of(product.out, product.dimensions);
  constexpr bool allow_empty = true;
  if (product.has_bias) return {engine, a, b, bias_desc_of(product), out, attributes, allow_empty};
  return {engine, a, b, out, attributes, allow_empty};
}

/// A product that is ready to run, or known to have no fast implementation.
struct Compiled {
  Compiled(const Product& product, const dnnl::memory::desc& b_desc, const dnnl::engine& engine) {
    const dnnl::matmul::primitive_desc description = describe(product, b_desc, engine);
    if (!description || is_reference(description)) return;
    a = description.src_desc();
    b = description.weights_desc();
    bias = description.bias_desc();
    out = description.dst_desc();
    scratchpad = description.scratchpad_desc();
    primitive = dnnl::matmul(description);
    supported = true;
  }

  bool supported = false;
  dnnl::matmul primitive;
  dnnl::memory::desc a, b, bias, out, scratchpad;
};

struct Hash {
  std::size_t operator()(const Product& product) const {
    std::size_t hash = product.dimensions * 16 + (product.packed_b ? 8 : 0) +
                       (product.accumulate ? 4 : 0) + (product.has_bias ? 2 : 0) +
                       static_cast<std::size_t>(product.bias_type);
    const auto mix = [&hash](std::size_t value) {
      hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29;
    };
    for (const Operand* operand : {&product.a, &product.b, &product.out}) {
      mix(static_cast<std::size_t>(operand->type));
      for (std::size_t i = 0; i < product.dimensions; ++i) {
        mix(static_cast<std::size_t>(operand->sizes[i]));
        mix(static_cast<std::size_t>(operand->strides[i]));
      }
    }
    return hash;
  }
};

/// The engine and the products compiled for it; the least recently used are dropped.
class Engine {
 public:
  std::shared_ptr<const Compiled> compiled(const Product& product) {
    const std::lock_guard lock(mutex_);
    if (const auto found = index_.find(product); found != index_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
      return found->second->second;
    }
    const dnnl::memory::desc b = product.packed_b ? layout_of(shape_of(product.b)).value()
                                                  : desc_of(product.b, product.dimensions);
    recent_.emplace_front(product, std::make_shared<const Compiled>(product, b, engine_));
    index_.emplace(product, recent_.begin());
    if (recent_.size() > capacity) {
      index_.erase(recent_.back().first);
      recent_.pop_back();
    }
    return recent_.front().second;
  }
  std::optional<dnnl::memory::desc> layout(const Shape& shape) {
    const std::lock_guard lock(mutex_);
    return layout_of(shape);
  }
  const dnnl::engine& get() const { return engine_; }

 private:
  const std::optional<dnnl::memory::desc>& layout_of(const Shape& shape) {
    const auto [found, is_new] = layouts_.try_emplace(shape);
    if (is_new) found->second = choose_layout(shape, engine_);
    return found->second;
  }

  /// A model uses about ten products per layer shape; each holds up to some 100 kB of code.
  static constexpr std::size_t capacity = 512;
  using Recent = std::list<std::pair<Product, std::shared_ptr<const Compiled>>>;

  std::mutex mutex_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  Recent recent_;
  std::unordered_map<Product, Recent::iterator, Hash> index_;
  std::map<Shape, std::optional<dnnl::memory::desc>> layouts_;  ///< of the weights seen so far
};

/// The only engine of the process: compiled code depends on nothing but the product, so sharing it
/// is not state that a caller could observe, and models in several threads do not compile the same
/// code twice.
Engine& shared_engine() {
  static Engine engine;
  return engine;
}

/// The memory of a product besides its operands: one for each calling thread, which grows.
class Workspace {
 public:
  const dnnl::stream& stream() const { return stream_; }
  dnnl::memory scratchpad(const dnnl::memory::desc& desc) {
    return {desc, shared_engine().get(), buffer_.of(desc.get_size())};
  }

 private:
  dnnl::stream stream_{shared_engine().get()};
  GrowingBuffer buffer_;
};

void execute(const Compiled& compiled, const void* a, const void* b, const void* bias, void* out) {
  thread_local Workspace workspace;
  const dnnl::engine& engine = shared_engine().get();
  // oneDNN's memory takes no pointer to const; sources are only read.
  const auto memory = [&engine](const dnnl::memory::desc& desc, const void* data) {
    return dnnl::memory(desc, engine, const_cast<void*>(data));
  };
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, memory(compiled.a, a)},
      {DNNL_ARG_WEIGHTS, memory(compiled.b, b)},
      {DNNL_ARG_DST, memory(compiled.out, out)},
      {DNNL_ARG_SCRATCHPAD, workspace.scratchpad(compiled.scratchpad)}};
  if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, memory(compiled.bias, bias));
  compiled.primitive.execute(workspace.stream(), arguments);
}

void reorder(const dnnl::memory::desc& from_desc, const void* from,
             const dnnl::memory::desc& to_desc, void* to) {
  const dnnl::engine& engine = shared_engine().get();
  dnnl::memory source(from_desc, engine, const_cast<void*>(from)), target(to_desc, engine, to);
  dnnl::stream stream(engine);
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
}

std::string_view name_of(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx2_vnni_2:
      return "avx2_vnni_2";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_fp16:
      return "avx512_core_fp16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    case dnnl::cpu_isa::avx512_core_amx_fp16:
      return "avx512_core_amx_fp16";
    default:
      return "generic";
  }
}

}  // namespace

bool multiply(const Product& product, const void* a, const void* b, const void* bias, void* out) {
  try {
    const std::shared_ptr<const Compiled> compiled = shared_engine().compiled(product);
    if (compiled->supported) execute(*compiled, a, b, bias, out);
    return compiled->supported;
  } catch (const dnnl::error& error) {
    throw runtime_error("matmul", "oneDNN to run it", error.what(),
                        "a smaller micro-batch if memory is short");
  }
}

std::size_t packed_bytes(Type type, std::int64_t k, std::int64_t n) {
  const auto layout = shared_engine().layout({type, k, n});
  return layout ? layout->get_size() : 0;
}

void pack(const Operand& b, const void* from, void* packed) {
  reorder(desc_of(b, 2), from, shared_engine().layout(shape_of(b)).value(), packed);
}

void unpack(const Operand& b, const void* packed, void* to) {
  reorder(shared_engine().layout(shape_of(b)).value(), packed, desc_of(b, 2), to);
}

bool multiplies_bf16() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_fp16 ||
         isa == dnnl::cpu_isa::avx512_core_amx || isa == dnnl::cpu_isa::avx512_core_amx_fp16;
}

std::string description() {
  const dnnl_version_t* version = dnnl::version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch) + " (" +
         std::string(name_of(dnnl::get_effective_cpu_isa())) + ")";
}

}  // namespace accrue::kernels::onednn
