#include "kernels/compiled/device_program.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <filesystem>
#include <initializer_list>
#include <map>
#include <mutex>

#include "accrue/core/error.h"
#include "core/loaded_libraries.h"

namespace accrue::kernels::compiled {
namespace {

namespace fs = std::filesystem;

constexpr const char* text =
#include "kernels/compiled/row_kernels.inc"
    ;

// The parts in use of the C interfaces of NVRTC and of the CUDA driver, as documented by NVIDIA
// ("NVRTC", "CUDA Driver API"). They are loaded at run time, so the program is built and runs
// without their headers.
using Program = void*;
using Module = void*;
using Function = void*;
constexpr int success = 0;
constexpr int compute_capability_major = 75, compute_capability_minor = 76;
constexpr int max_shared_memory_per_block = 97, max_dynamic_shared_size = 8;
/// The shared memory that a block may use by default.
constexpr unsigned usual_shared_bytes = 48 << 10;

struct Nvrtc {
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(Program*);
  int (*add_name)(Program, const char*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*code_size)(Program, std::size_t*);
  int (*code)(Program, char*);
  int (*lowered_name)(Program, const char*, const char**);
};

struct Driver {
  int (*current_context)(void**);
  int (*primary_context)(void**, int);
  int (*use_context)(void*);
  int (*attribute)(int*, int, int);
  int (*load)(Module*, const void*);
  int (*find)(Function*, Module, const char*);
  int (*set_attribute)(Function, int, int);
  int (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                void*, void**, void**);
};

/// Libraries of NVIDIA's wheels are next to libtorch's, those of a toolkit where the linker looks.
void* open_library(const std::string& name) {
  if (void* const found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  const fs::path libtorch = library_of(reinterpret_cast<const void*>(&at::globalContext));
  if (libtorch.empty()) return nullptr;
  const fs::path wheels = libtorch.parent_path() / ".." / ".." / "nvidia";
  std::error_code error;
  for (const fs::directory_entry& package : fs::directory_iterator(wheels, error))
    if (void* const found = dlopen((package.path() / "lib" / name).c_str(), RTLD_NOW | RTLD_LOCAL))
      return found;
  return nullptr;
}

template <class Call>
bool find(void* library, const char* name, Call& call) {
  call = reinterpret_cast<Call>(library == nullptr ? nullptr : dlsym(library, name));
  return call != nullptr;
}

/// All functions that compiling needs, if they are all found.
struct Tools {
  Nvrtc nvrtc{};
  Driver driver{};
  bool complete = false;

  Tools() {
    void* compiler = nullptr;
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
      if (compiler == nullptr) compiler = open_library(name);
    void* const cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    complete = find(compiler, "nvrtcCreateProgram", nvrtc.create) &&
               find(compiler, "nvrtcDestroyProgram", nvrtc.destroy) &&
               find(compiler, "nvrtcAddNameExpression", nvrtc.add_name) &&
               find(compiler, "nvrtcCompileProgram", nvrtc.compile) &&
               find(compiler, "nvrtcGetProgramLogSize", nvrtc.log_size) &&
               find(compiler, "nvrtcGetProgramLog", nvrtc.log) &&
               find(compiler, "nvrtcGetCUBINSize", nvrtc.code_size) &&
               find(compiler, "nvrtcGetCUBIN", nvrtc.code) &&
               find(compiler, "nvrtcGetLoweredName", nvrtc.lowered_name) &&
               find(cuda, "cuCtxGetCurrent", driver.current_context) &&
               find(cuda, "cuDevicePrimaryCtxRetain", driver.primary_context) &&
               find(cuda, "cuCtxSetCurrent", driver.use_context) &&
               find(cuda, "cuDeviceGetAttribute", driver.attribute) &&
               find(cuda, "cuModuleLoadData", driver.load) &&
               find(cuda, "cuModuleGetFunction", driver.find) &&
               find(cuda, "cuFuncSetAttribute", driver.set_attribute) &&
               find(cuda, "cuLaunchKernel", driver.launch);
  }
};

const Tools& tools() {
  static const Tools found;
  return found;
}

[[noreturn]] void fail(const std::string& kernel, const std::string& received) {
  throw runtime_error("compile " + kernel + " for the device", "code that it runs", received,
                      "run.kernels = \"generic\", which needs no compiler");
}

/// A thread of autograd may not have used the device before. The context is libtorch's, which the
/// process keeps.
void use_context_of(int device) {
  const Driver& driver = tools().driver;
  void* context = nullptr;
  if (driver.current_context(&context) == success && context != nullptr) return;
  if (driver.primary_context(&context, device) == success) driver.use_context(context);
}

/// "sm_90".
std::string architecture_of(int device) {
  int major = 0, minor = 0;
  tools().driver.attribute(&major, compute_capability_major, device);
  tools().driver.attribute(&minor, compute_capability_minor, device);
  return "sm_" + std::to_string(10 * major + minor);
}

class CompiledKernel {
 public:
  CompiledKernel(const std::string& kernel, int device) {
    const Nvrtc& nvrtc = tools().nvrtc;
    Program program = nullptr;
    if (nvrtc.create(&program, text, "row_kernels.cu", 0, nullptr, nullptr) != success)
      fail(kernel, "no program");
    nvrtc.add_name(program, kernel.c_str());
    const std::string architecture = "--gpu-architecture=" + architecture_of(device);
    const char* const options[] = {architecture.c_str(), "--std=c++17"};
    if (nvrtc.compile(program, 2, options) != success) fail(kernel, log_of(program));
    std::size_t size = 0;
    nvrtc.code_size(program, &size);
    code_.resize(size);
    nvrtc.code(program, code_.data());
    const char* lowered = nullptr;
    nvrtc.lowered_name(program, kernel.c_str(), &lowered);
    Module module = nullptr;
    if (lowered == nullptr || tools().driver.load(&module, code_.data()) != success ||
        tools().driver.find(&function_, module, lowered) != success)
      fail(kernel, "code that the driver does not load");
    nvrtc.destroy(&program);
  }
  Function function() const { return function_; }

 private:
  static std::string log_of(Program program) {
    std::size_t size = 0;
    tools().nvrtc.log_size(program, &size);
    std::string log(size, '\0');
    tools().nvrtc.log(program, log.data());
    return log;
  }

  std::vector<char> code_;
  Function function_ = nullptr;
};

/// The kernels of all devices, which live as long as the process: a driver that shuts down must not
/// be asked to unload them.
Function function_of(const std::string& kernel, int device) {
  static std::mutex mutex;
  static auto& kernels = *new std::map<std::pair<std::string, int>, CompiledKernel>;
  const std::lock_guard lock(mutex);
  const std::pair key(kernel, device);
  auto found = kernels.find(key);
  if (found == kernels.end()) found = kernels.emplace(key, CompiledKernel(kernel, device)).first;
  return found->second.function();
}

}  // namespace

bool can_compile_for(const at::Tensor& tensor) { return tensor.is_cuda() && tools().complete; }

std::int64_t most_shared_bytes(const at::Tensor& on) {
  int bytes = 0;
  tools().driver.attribute(&bytes, max_shared_memory_per_block, on.device().index());
  return bytes;
}

void launch(const at::Tensor& on, const Launch& what, const std::vector<const void*>& arguments) {
  const c10::Device device = on.device();
  const c10::Stream stream = c10::impl::getDeviceGuardImpl(device.type())->getStream(device);
  std::vector<void*> addresses;
  for (const void* argument : arguments) addresses.push_back(const_cast<void*>(argument));
  use_context_of(device.index());
  const Function function = function_of(what.kernel, device.index());
  const Driver& driver = tools().driver;
  if (what.shared_bytes > usual_shared_bytes)
    driver.set_attribute(function, max_dynamic_shared_size, static_cast<int>(what.shared_bytes));
  const int status =
      driver.launch(function, static_cast<unsigned>(what.blocks), 1, 1, what.threads, 1, 1,
                    what.shared_bytes, stream.native_handle(), addresses.data(), nullptr);
  if (status != success) fail(what.kernel, "error " + std::to_string(status) + " of the driver");
}

}  // namespace accrue::kernels::compiled
