#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>

/// What both of oneDNN's kinds of convolution need: those of accrue's own layers and weight
/// gradients of others.
namespace accrue::kernels::onednn {

/// The attributes of a primitive that works in memory which it is given.
inline dnnl::primitive_attr with_given_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// Whether oneDNN has an implementation, and not just the reference one, which is there for any
/// shape and slower than ATen.
template <class Description>
bool is_fast(const Description& description) {
  return description &&
         std::string_view(description.impl_info_str()).find("ref") == std::string_view::npos;
}

/// An engine, and what is compiled for it by `Key`; when there are many they are forgotten
/// together. Safe from several threads.
template <class Key, class Compiled>
class CompiledCache {
 public:
  /// `compile(engine)` makes what is not there yet.
  template <class Compile>
  std::shared_ptr<const Compiled> get(const Key& key, const Compile& compile) {
    const std::lock_guard lock(mutex_);
    auto& found = compiled_[key];
    if (!found) found = std::make_shared<const Compiled>(compile(engine_));
    const std::shared_ptr<const Compiled> result = found;
    if (compiled_.size() > capacity) compiled_.clear();
    return result;
  }
  const dnnl::engine& engine() const { return engine_; }

 private:
  /// A ResNet has about sixty of them for each size of a micro-batch.
  static constexpr std::size_t capacity = 1024;
  std::mutex mutex_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::map<Key, std::shared_ptr<const Compiled>> compiled_;
};

}  // namespace accrue::kernels::onednn
